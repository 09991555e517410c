#pragma once
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "model/base/json.h"

namespace trireme {

// Typed access to the fields of a config.json. Collects all errors, which finish() throws together.
class ConfigFields {
 public:
  ConfigFields(const nlohmann::json& object, std::string where);

  // Null if the field is missing or null.
  const nlohmann::json* find(const std::string& key);
  bool has(const std::string& key) const { return object_.contains(key); }  // null counts
  std::int64_t size(const std::string& key);                                // required
  std::int64_t size_or(const std::string& key, std::int64_t otherwise);
  double number_or(const std::string& key, double otherwise) {
    return value_or(key, otherwise, "must be a number");
  }
  bool flag_or(const std::string& key, bool otherwise) {
    return value_or(key, otherwise, "must be true or false");
  }
  std::string text_or(const std::string& key, const std::string& otherwise) {
    return value_or(key, otherwise, "must be a string");
  }

  // Refuses any other value, as it changes the computation. A missing field is accepted.
  void only(const std::string& key, const std::vector<nlohmann::json>& values);
  // Accepts a field that has no effect on training.
  void ignore(const std::string& key) { known_.insert(key); }
  void refuse(const std::string& key, const nlohmann::json& value, const std::string& why);
  void note(const std::string& text) { notes_.push_back(text); }

  // Throws CheckpointError with everything refused. Otherwise returns the notes and all unread
  // fields whose value is neither null nor false.
  std::vector<std::string> finish();

 private:
  template <class T>
  T value_or(const std::string& key, const T& otherwise, const char* wanted) {
    const nlohmann::json* value = find(key);
    if (!value) return otherwise;
    const auto found = json_as<T>(*value);
    if (!found) refuse(key, *value, wanted);
    return found.value_or(otherwise);
  }

  const nlohmann::json& object_;
  std::string where_;
  std::set<std::string> known_;
  std::vector<std::string> notes_;
  std::string refused_;
};

}  // namespace trireme
