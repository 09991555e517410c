#pragma once
#include <set>
#include <string>
#include <vector>

#include "trainer/config/loaded_config.h"

namespace trireme {

// Everything wrong with a config, told at once and in the order of the file.
class Complaints {
 public:
  // "run.toml:3:6: optimizer.lr = -1: must be above 0". A part of the key or the value
  // may be left out; the key counts as bad from then on.
  struct Complaint {
    Origin origin;
    std::string key;    // empty: about the file as a whole
    std::string value;  // as given, for people
    std::string what;
  };
  void add(Complaint complaint);

  // The key's own value was refused, so rules that involve it would only mislead.
  bool has_refused(const std::string& key) const { return refused_.contains(key); }
  void refuse(const std::string& key) { refused_.insert(key); }

  bool empty() const { return complaints_.empty(); }
  // One line a complaint; `source` names the file.
  std::string text(const std::string& source) const;

 private:
  std::vector<Complaint> complaints_;
  std::set<std::string> refused_;
};

}  // namespace trireme
