#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "trainer/config/foreign_keys.h"
#include "trainer/convert/trainers/foreign_config.h"

namespace trireme {

// Converts another trainer's config to a config of this trainer.
class Translation {
 public:
  // Source keys in `leave_out` are ignored although they change the computation.
  explicit Translation(const ForeignConfig& from, const std::set<std::string>& leave_out = {});

  // The config file, with the source of each value in a comment. Keys without a counterpart and
  // keys still to be set are listed in comments.
  std::string toml() const;
  // Source keys without a counterpart that do not change the computation, with value and reason.
  const std::vector<std::string>& left() const { return left_; }
  // Source keys that change the computation, or may, and have no counterpart.
  const std::vector<std::string>& refused() const { return refused_; }

 private:
  void torchtitan(const ForeignConfig& from);
  void torchtitan_disabled(const ForeignConfig& from);  // sections and converters
  void torchtitan_flavor(const ForeignConfig& from);
  void torchtitan_rate(const ForeignConfig& from);
  void megatron(const ForeignConfig& from);
  void megatron_model(const ForeignConfig& from);
  void megatron_batch(const ForeignConfig& from);
  void megatron_rate(const ForeignConfig& from);
  void megatron_layout(const ForeignConfig& from);
  void megatron_data(const ForeignConfig& from);
  void nanotron(const ForeignConfig& from);
  void nanotron_rate(const ForeignConfig& from);
  void nanotron_data(const ForeignConfig& from);

  void apply(const ForeignConfig& from, const std::vector<ForeignKey>& keys);
  // Shortest text that reads back to the same value.
  static std::string exact(double value);
  // Returns false if the value is invalid for the key.
  bool set(const std::string& ours, const std::string& value, const std::string& source);
  // Marks a source key as handled.
  void use(const std::string& theirs) { used_[theirs] = true; }
  void leave(const ForeignConfig::Entry& entry, const std::string& why);
  // Refuses something other than a key with its value, such as a default.
  void refuse(const std::string& key, const std::string& what);
  // Adds a comment for any key.
  void note(const ForeignConfig::Entry& entry, const std::string& why);

  struct Entry {
    std::string toml, source;
  };
  std::map<std::string, Entry> entries_;
  std::map<std::string, bool> used_;
  std::set<std::string> leave_out_;
  std::vector<std::string> left_, refused_;
  std::string kind_;
  ForeignConfig::Kind trainer_;
};

}  // namespace trireme
