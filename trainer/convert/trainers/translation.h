#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "trainer/config/foreign_keys.h"
#include "trainer/convert/trainers/foreign_config.h"

namespace trireme {

// Another trainer's config in our words.
class Translation {
 public:
  // Keys of theirs in `leave_out` are left out although they change what is computed.
  explicit Translation(const ForeignConfig& from, const std::set<std::string>& leave_out = {});

  // A config file of ours, with where each value comes from; what has no counterpart, and what is
  // still to be set, stands in comments.
  std::string toml() const;
  // Theirs that have no counterpart here and need none, with their values and, where there is one,
  // the reason.
  const std::vector<std::string>& left() const { return left_; }
  // Theirs that change what is computed, or may, and cannot be said here.
  const std::vector<std::string>& refused() const { return refused_; }

 private:
  void torchtitan(const ForeignConfig& from);
  void megatron(const ForeignConfig& from);
  void megatron_model(const ForeignConfig& from);
  void nanotron(const ForeignConfig& from);

  void megatron_rate(const ForeignConfig& from);
  void megatron_data(const ForeignConfig& from);
  void nanotron_data(const ForeignConfig& from);
  void nanotron_rate(const ForeignConfig& from);

  void apply(const ForeignConfig& from, const std::vector<ForeignKey>& keys);
  // With all of its digits.
  static std::string exact(double value);
  // False where the value is none of our key's.
  bool set(const std::string& ours, const std::string& value, const std::string& source);
  // Their key has been dealt with.
  void use(const std::string& theirs) { used_[theirs] = true; }
  void leave(const ForeignConfig::Entry& entry, const std::string& why);
  // What is not one of their keys with its value as it stands: a default of theirs, say.
  void refuse(const std::string& key, const std::string& what);
  // A comment, whatever the key is.
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
