#pragma once
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace trireme {

// The fields of a config.json, read one after the other; what is wrong with them is told at once.
class ConfigFields {
 public:
  ConfigFields(const nlohmann::json& object, std::string where);

  // Null where it is missing or null.
  const nlohmann::json* find(const std::string& key);
  std::int64_t size(const std::string& key);  // must be there
  std::int64_t size_or(const std::string& key, std::int64_t otherwise);
  double number_or(const std::string& key, double otherwise);
  bool flag_or(const std::string& key, bool otherwise);
  std::string text_or(const std::string& key, const std::string& otherwise);

  // Any value of it that is there and not one of these changes the computation.
  void only(const std::string& key, std::initializer_list<nlohmann::json> values);
  // It is there, but means nothing to training.
  void ignore(const std::string& key) { known_.insert(key); }
  void refuse(const std::string& key, const nlohmann::json& value, const std::string& why);
  void note(const std::string& text) { notes_.push_back(text); }

  // Throws CheckpointError where something was refused. Else what was noted, and the fields nobody
  // asked for whose value is neither null nor false.
  std::vector<std::string> finish();

 private:
  const nlohmann::json& object_;
  std::string where_;
  std::set<std::string> known_;
  std::vector<std::string> notes_;
  std::string refused_;
};

}  // namespace trireme
