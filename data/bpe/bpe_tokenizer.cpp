#include "data/bpe/bpe_tokenizer.h"

#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "data/bpe/bpe_encoder.h"
#include "data/bpe/json_section.h"
#include "data/bpe/normal_form.h"
#include "data/utf8.h"
#include "model/base/error.h"
#include "model/base/file.h"
#include "model/base/hex.h"
#include "model/base/json.h"

namespace trireme::data {
namespace {

struct DeclaredEnd {
  std::string content{};
  std::optional<std::int32_t> id{};  // from added_tokens_decoder, if it is there
  std::string place{};               // the file that declares it
};

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

// The eos_token declared by tokenizer_config.json, otherwise by special_tokens_map.json, in the
// folder of the tokenizer.json at `path`; empty content if there is none. Throws DataError for
// damaged files.
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

// No match of these patterns continues from another character into a space, so a text can be split
// there: GPT-2, Llama 3, Qwen.
constexpr std::array<std::string_view, 2> kStopAtSpaces{
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};

bool stops_at_spaces(const TokenizerJson& spec) {
  if (spec.splits.empty()) return spec.splits_by_gpt2;
  return spec.splits.size() == 1 && !spec.splits_by_gpt2 && !spec.prefix_space &&
         spec.splits[0].kind == Pattern::Kind::kRegex &&
         std::find(kStopAtSpaces.begin(), kStopAtSpaces.end(), spec.splits[0].pattern) !=
             kStopAtSpaces.end();
}

// Whether a split before a space could separate text that an added token would consume.
bool reaches_over_spaces(const AddedToken& token) {
  return token.takes_right || token.content.find(' ', 1) != std::string::npos;
}

Merges table_of(const std::vector<TokenizerJson::Merge>& list) {
  Merges table(list.size());
  std::uint32_t rank = 0;
  for (const TokenizerJson::Merge& merge : list) {
    table.add(merge.left, merge.right, {rank++, merge.result});
  }
  return table;
}

std::vector<AddedToken> choose(const TokenizerJson& spec, bool normalized) {
  std::vector<AddedToken> chosen;
  for (AddedToken token : spec.added) {
    if (token.normalized != normalized) continue;
    if (normalized && spec.nfc) token.content = to_nfc(token.content);
    chosen.push_back(std::move(token));
  }
  return chosen;
}

std::int32_t find_end(const std::vector<AddedToken>& added,
                      const std::vector<std::optional<std::string>>& texts,
                      const std::string& path) {
  const DeclaredEnd declared = declared_end(path);
  const auto added_id = [&](const std::string& name) {
    const auto found = std::find_if(added.begin(), added.end(),
                                    [&](const AddedToken& token) { return token.content == name; });
    return found == added.end() ? -1 : found->id;
  };
  if (!declared.content.empty()) {
    if (const std::int32_t id = added_id(declared.content); id >= 0) return id;
    if (declared.id) {
      const auto at = static_cast<std::size_t>(*declared.id);
      if (at >= texts.size() || !texts[at] || texts[at] == declared.content) return *declared.id;
      throw DataError(say(declared.place, ": the eos_token \"", declared.content, "\" has the id ",
                          at, " in added_tokens_decoder, which is another token in ", path,
                          "; correct one of the two"));
    }
    const auto found = std::find(texts.begin(), texts.end(), declared.content);
    if (found != texts.end()) return static_cast<std::int32_t>(found - texts.begin());
  }
  for (const char* name : {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"}) {
    if (const std::int32_t id = added_id(name); id >= 0) return id;
  }
  return -1;
}

// A token declared only by tokenizer_config.json is after those of tokenizer.json, or in a gap.
void make_room(std::vector<std::optional<std::string>>& texts, std::int32_t id,
               const std::string& path) {
  if (id < 0) return;
  const auto at = static_cast<std::size_t>(id);
  if (at >= texts.size()) texts.resize(at + 1);
  if (!texts[at]) texts[at] = declared_end(path).content;
}

}  // namespace

BpeTokenizer::BpeTokenizer(const std::string& path, const std::string& content)
    : BpeTokenizer(path, content, parse_tokenizer_json(path, content)) {}

BpeTokenizer::BpeTokenizer(std::string path, const std::string& content, TokenizerJson spec)
    : path_(std::move(path)),
      surroundings_(std::move(spec.surroundings)),
      texts_(std::move(spec.texts)),
      bytes_(spec.bytes),
      merges_(table_of(spec.merges)),
      nfc_(spec.nfc),
      prefix_space_(spec.prefix_space),
      ignore_merges_(spec.ignore_merges),
      splits_before_prefix_(spec.splits.size()),
      raw_(choose(spec, false)),
      normalized_(choose(spec, true)),
      end_of_document_(find_end(spec.added, texts_, path_)) {
  make_room(texts_, end_of_document_, path_);
  hash_ = hex(XXH3_64bits_withSeed(content.data(), content.size(),
                                   static_cast<std::uint64_t>(end_of_document_)));
  try {
    for (const TokenizerJson::Split& split : spec.splits) {
      splits_.push_back({Pattern(split.pattern, split.kind), split.keeps_gaps});
    }
    if (spec.splits_by_gpt2)
      splits_.push_back({Pattern(kGpt2Pattern, Pattern::Kind::kRegex), true});
  } catch (const DataError& error) {
    throw DataError(say("tokenizer ", path_, ": ", error.what()));
  }
  const auto holds = [&](auto&& fault) {
    return std::none_of(spec.added.begin(), spec.added.end(), fault);
  };
  cuts_before_spaces_ = stops_at_spaces(spec) && holds(reaches_over_spaces);
  lossless_ = !nfc_ && !prefix_space_ &&
              std::find(bytes_.begin(), bytes_.end(), -1) == bytes_.end() &&
              std::all_of(spec.splits.begin(), spec.splits.end(),
                          [](const TokenizerJson::Split& split) { return split.keeps_gaps; }) &&
              holds([](const AddedToken& token) { return token.takes_left || token.takes_right; });
  if (!ignore_merges_) return;
  for (const std::int32_t id : spec.words) words_.emplace(*texts_[id], id);
}

std::unique_ptr<Encoder> BpeTokenizer::encoder() const {
  return std::make_unique<BpeEncoder>(*this);
}

std::string BpeTokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= vocab_size() || !texts_[id]) {
      throw DataError(say("the id ", id, " is none of the ", vocab_size(), " of ", path_));
    }
    if (id != end_of_document_) text += *texts_[id];
  }
  return text;
}

std::size_t BpeTokenizer::last_cut(std::string_view text) const {
  if (!cuts_before_spaces_) return 0;
  for (std::size_t at = text.rfind(' '); at != std::string_view::npos && at > 0;
       at = text.rfind(' ', at - 1)) {
    const std::string_view before = text.substr(0, at);
    const auto last = static_cast<unsigned char>(before.back());
    // Non-ASCII white space ends with a byte that other characters end with too.
    if (last > ' ' && last < 0x7F) return at;
  }
  return 0;
}

}  // namespace trireme::data
