#include "data/bpe/declared_end.h"

#include <charconv>
#include <filesystem>

#include "data/bpe/json_section.h"
#include "data/bpe/json_size.h"
#include "model/base/error.h"
#include "model/base/file.h"
#include "model/base/json.h"

namespace trireme::data {
namespace {

using nlohmann::json;

constexpr std::uint64_t kLongestConfig = 16u << 20;

// An empty object if the file does not exist.
json object_of(const std::filesystem::path& file) {
  std::error_code why;
  if (!std::filesystem::exists(file, why)) return json::object();
  try {
    const std::string text = read_text(file, kLongestConfig);
    check_json_size(file.string(), text);
    json whole = json::parse(text);
    return whole.is_object() ? whole : json::object();
  } catch (const json::exception&) {
    throw DataError(say(file.string(), ": is not valid JSON"));
  } catch (const EnvironmentError& error) {
    throw DataError(error.what());
  }
}

// A token is a string, or an object with its content.
std::string content_of(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return "";
  if (found->is_object()) return content_of(*found, "content");
  return json_as<std::string>(*found).value_or("");
}

std::optional<std::int32_t> id_of(const json& config, const std::string& content) {
  const auto tokens = config.find("added_tokens_decoder");
  if (tokens == config.end() || !tokens->is_object()) return std::nullopt;
  for (const auto& [key, token] : tokens->items()) {
    if (!token.is_object() || content_of(token, "content") != content) continue;
    std::int32_t id = -1;
    const auto [end, fault] = std::from_chars(key.data(), key.data() + key.size(), id);
    const bool whole = fault == std::errc() && end == key.data() + key.size();
    if (whole && id >= 0 && id < JsonSection::kMostIds) return id;
  }
  return std::nullopt;
}

}  // namespace

DeclaredEnd declared_end(const std::string& path) {
  const auto folder = std::filesystem::path(path).parent_path();
  const auto config_file = folder / "tokenizer_config.json";
  const json config = object_of(config_file);
  DeclaredEnd end{.content = content_of(config, "eos_token"), .place = config_file.string()};
  if (end.content.empty()) {
    const auto map_file = folder / "special_tokens_map.json";
    end.content = content_of(object_of(map_file), "eos_token");
    end.place = map_file.string();
  }
  if (!end.content.empty()) end.id = id_of(config, end.content);
  return end;
}

}  // namespace trireme::data
