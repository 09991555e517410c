#pragma once
#include <map>
#include <string>
#include <vector>

#include "trainer/imports/foreign_config.h"

namespace trireme {

// Another trainer's config in our words.
class Translation {
 public:
  explicit Translation(const ForeignConfig& from);

  // A config file of ours, with where each value comes from; what has no counterpart, and what is
  // still to be set, stands in comments.
  std::string toml() const;
  // Theirs that have no counterpart here, with their values and, where there is one, the reason.
  const std::vector<std::string>& left() const { return left_; }

 private:
  void torchtitan(const ForeignConfig& from);
  void megatron(const ForeignConfig& from);
  void megatron_model(const ForeignConfig& from);
  void nanotron(const ForeignConfig& from);

  using Words = std::map<std::string, std::string>;
  struct Rule {
    std::string theirs, ours;
    Words words = {};                 // of theirs for ours; none: the value as it is
    std::string theirs_default = {};  // where the key is not there, and ours is another
  };
  void apply(const ForeignConfig& from, const std::vector<Rule>& rules);
  // False where the value is none of our key's.
  bool set(const std::string& ours, const std::string& value, const std::string& source);
  // Their key has been dealt with.
  void use(const std::string& theirs) { used_[theirs] = true; }
  void leave(const ForeignConfig::Entry& entry, const std::string& why);

  struct Entry {
    std::string toml, source;
  };
  std::map<std::string, Entry> entries_;
  std::map<std::string, bool> used_;
  std::vector<std::string> left_;
  std::string kind_;
};

}  // namespace trireme
