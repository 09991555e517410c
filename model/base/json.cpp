#include "model/base/json.h"

#include <set>

#include "model/base/human.h"

namespace trireme {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 32;

}  // namespace

void JsonProblem::prepend(std::string_view key) {
  const bool is_end = path.empty() || path.front() == '[';
  path = printable(key) + (is_end ? "" : ".") + path;
}

void JsonProblem::prepend(std::size_t index) {
  path = say("[", index, "]", path.empty() || path.front() == '[' ? "" : ".", path);
}

std::string JsonProblem::text(const std::string& from) const {
  std::string text;
  for (const std::string& part : {from, path}) text += part.empty() ? "" : part + ": ";
  return text + why;
}

json parse_json(std::string_view text) {
  using Event = json::parse_event_t;
  std::vector<std::set<std::string>> keys;  // of the enclosing objects
  const auto watch = [&](int depth, Event event, json& parsed) {
    if (depth > kMaxDepth) throw JsonProblem{"nested too deeply"};
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys.back().insert(key).second) {
        throw JsonProblem{say("key \"", printable(key), "\" appears twice")};
      }
    }
    return true;
  };
  try {
    return json::parse(text, watch);
  } catch (const json::exception& error) {
    throw JsonProblem{printable(error.what())};
  }
}

void refuse_json(const std::string& expected, const json& found) {
  constexpr std::size_t kFew = 8;
  const bool is_long = found.is_structured() && found.size() > kFew;
  throw JsonProblem{say(expected, " expected, found ",
                        is_long ? found.type_name() : printable(json_text(found)))};
}

const json& require_json(const json& value, json::value_t type) {
  if (value.type() == type) return value;
  refuse_json(type == json::value_t::object    ? "an object is"
              : type == json::value_t::array   ? "a list is"
              : type == json::value_t::boolean ? "true or false is"
                                               : "a string is",
              value);
}

// Two's complement of a negative number.
std::uint64_t whole_number(const json& value, JsonBounds bounds) {
  const auto number = value.is_number_integer() ? value.get<std::uint64_t>() : 0;
  const auto negative = value.is_number_unsigned() ? 0 : static_cast<std::int64_t>(number);
  const bool is_inside =
      negative < 0 ? negative >= bounds.least
                   : number <= bounds.most && std::cmp_greater_equal(number, bounds.least);
  if (!value.is_number_integer() || !is_inside) {
    refuse_json(say("a whole number from ", bounds.least, " to ", bounds.most, " is"), value);
  }
  return number;
}

const json& JsonReader::at(const char* key) {
  known_.emplace_back(key);
  const auto found = value_.find(key);
  if (found == value_.end()) throw JsonProblem{"missing"};
  return *found;
}

void JsonReader::refuse_unknown_keys() const {
  for (const auto& [key, value] : value_.items()) {
    if (std::find(known_.begin(), known_.end(), key) == known_.end()) {
      throw JsonProblem{say("unknown key \"", printable(key), "\"")};
    }
  }
}

}  // namespace trireme
