#include "trainer/engine/evaluation/question.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "model/base/error.h"
#include "model/base/file.h"

namespace trireme {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::string_view, 7> kPassedOver{
    "ind", "activity_label", "ctx_a", "ctx_b", "split", "split_type", "source_id"};
constexpr const char* kWanted = "a question has ctx (or context), endings and label";

const Json& required(const Json& line, const char* key) {
  const auto found = line.find(key);
  if (found == line.end()) throw DataError(say("has no ", key, "; ", kWanted));
  return *found;
}

std::string text(const Json& value, const std::string& what) {
  if (!value.is_string()) throw DataError(say(what, " must be a string, not ", value.type_name()));
  return value.get<std::string>();
}

std::vector<std::string> endings_of(const Json& value) {
  if (!value.is_array()) {
    throw DataError(say("endings must be a list of strings, not ", value.type_name()));
  }
  std::vector<std::string> endings;
  for (std::size_t i = 0; i < value.size(); ++i) {
    endings.push_back(text(value[i], say("endings[", i, "]")));
    if (endings.back().empty()) throw DataError(say("endings[", i, "] is empty"));
  }
  if (endings.size() < 2)
    throw DataError(say(endings.size(), " endings; a question needs at least two"));
  return endings;
}

std::optional<std::int64_t> number(const Json& value) {
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (!value.is_string()) return std::nullopt;
  const auto& digits = value.get_ref<const std::string&>();
  constexpr std::size_t kMostDigits = 9;
  const bool is_number =
      !digits.empty() && digits.size() <= kMostDigits &&
      std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
  return is_number ? std::optional<std::int64_t>(std::stoll(digits)) : std::nullopt;
}

std::size_t label_of(const Json& value, std::size_t endings) {
  const auto label = number(value);
  if (!label || *label < 0 || *label >= static_cast<std::int64_t>(endings)) {
    throw DataError(say("label must be the number of an ending, 0 to ", endings - 1, ", not ",
                        value.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 40)));
  }
  return static_cast<std::size_t>(*label);
}

void refuse_other_keys(const Json& line) {
  for (const auto& [key, value] : line.items()) {
    const bool is_known =
        key == "ctx" || key == "context" || key == "endings" || key == "label" ||
        std::find(kPassedOver.begin(), kPassedOver.end(), key) != kPassedOver.end();
    if (!is_known) {
      throw DataError(say("the key \"", key.substr(0, 60), "\" is unknown; ", kWanted));
    }
  }
}

}  // namespace

Question parse_question(std::string_view line) {
  const Json json = Json::parse(line, nullptr, false);
  if (json.is_discarded()) throw DataError("is not valid JSON");
  if (!json.is_object()) throw DataError(say("must be an object, not ", json.type_name()));
  refuse_other_keys(json);
  const bool is_short = json.contains("ctx");
  if (is_short && json.contains("context")) throw DataError("has both ctx and context");
  Question question;
  const char* key = is_short || !json.contains("context") ? "ctx" : "context";
  question.context = text(required(json, key), key);
  question.endings = endings_of(required(json, "endings"));
  question.label = label_of(required(json, "label"), question.endings.size());
  return question;
}

std::vector<Question> read_questions(const std::filesystem::path& jsonl) {
  std::optional<MappedFile> file;
  try {
    file.emplace(jsonl);
  } catch (const Error& error) {
    throw DataError(say("cannot read the questions: ", error.what()));
  }
  std::string_view rest(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
  std::vector<Question> questions;
  for (std::size_t number = 1; !rest.empty(); ++number) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    try {
      questions.push_back(parse_question(line));
    } catch (const DataError& error) {
      throw DataError(say(jsonl.string(), ":", number, ": ", error.what()));
    }
  }
  if (questions.empty()) throw DataError(say(jsonl.string(), " has no questions"));
  return questions;
}

}  // namespace trireme
