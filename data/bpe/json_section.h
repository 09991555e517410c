#pragma once
#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/bpe/pattern.h"
#include "model/base/error.h"

namespace trireme::data {

// Throws DataError beginning with `place` if parsing `text` as JSON would need more memory than any
// real tokenizer: too deeply nested, or too many values. Does not allocate.
void check_json_size(const std::string& place, std::string_view text);

// An object of a tokenizer.json with its path, which every DataError names. The JSON outlives it.
class JsonSection {
 public:
  using json = nlohmann::json;
  static constexpr std::int64_t kMostIds = 1 << 22;

  JsonSection(const json& object, std::string place) : object_(object), place_(std::move(place)) {
    if (!object.is_object()) wrong("is not an object");
  }

  [[noreturn]] void wrong(std::string_view what) const { throw DataError(say(place_, ": ", what)); }
  void only(std::initializer_list<std::string_view> keys) const {
    for (const auto& [key, value] : object_.items()) {
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
        wrong(say("\"", key, "\" is not implemented"));
      }
    }
  }
  const json* find(const char* key) const {  // null counts as absent
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  void refuse(const char* key) const {
    if (find(key) != nullptr) wrong(say("\"", key, "\" is not implemented; only null is"));
  }
  void refuse_unless_empty(const char* key) const {
    const json* value = find(key);
    if (value != nullptr && *value != json("")) wrong(say("\"", key, "\" is not implemented"));
  }
  bool flag(const char* key, bool otherwise) const {
    const json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_boolean()) wrong(say("\"", key, "\" is neither true nor false"));
    return value->get<bool>();
  }
  std::string text(const char* key) const {
    const json* value = find(key);
    if (value == nullptr || !value->is_string()) wrong(say("\"", key, "\" is not a string"));
    return value->get<std::string>();
  }
  PatternSpec pattern(const char* key) const {
    const JsonSection inner = section(key);
    inner.only({"Regex", "String"});
    const bool regex = inner.find("Regex") != nullptr;
    return {inner.text(regex ? "Regex" : "String"),
            regex ? Pattern::Kind::kRegex : Pattern::Kind::kLiteral};
  }
  const json& array(const char* key) const {
    const json* value = find(key);
    if (value == nullptr || !value->is_array()) wrong(say("\"", key, "\" is not a list"));
    return *value;
  }
  JsonSection section(const char* key) const {
    const json* value = find(key);
    if (value == nullptr) wrong(say("has no \"", key, "\""));
    return {*value, say(place_, " ", key)};
  }
  std::vector<JsonSection> sections(const char* key) const {
    std::vector<JsonSection> all;
    for (const json& value : array(key)) all.emplace_back(value, say(place_, " ", key));
    return all;
  }
  std::int32_t id(const json* value) const {
    if (value == nullptr || !value->is_number_integer()) wrong("an id is not an integer");
    if (value->is_number_unsigned() ? value->get<std::uint64_t>() >= kMostIds
                                    : value->get<std::int64_t>() < 0) {
      wrong(say("the id ", value->dump(), " is not between 0 and ", kMostIds - 1));
    }
    return value->get<std::int32_t>();
  }
  const json& object() const { return object_; }

 private:
  const json& object_;
  std::string place_;
};

}  // namespace trireme::data
