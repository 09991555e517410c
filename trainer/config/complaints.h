#pragma once
#include <set>
#include <string>
#include <vector>

#include "trainer/config/loaded_config.h"

namespace trireme {

// All errors of a config, reported together in the order of the file.
class Complaints {
 public:
  // "run.toml:3:6: optimizer.lr = -1: must be above 0". Key and value may be empty. Marks the key
  // as refused.
  struct Complaint {
    Origin origin;
    std::string key;    // empty: about the file as a whole
    std::string value;  // as given, for messages
    std::string what;
  };
  void add(Complaint complaint);

  // True if the key's own value was refused, so that rules that involve it are skipped.
  bool has_refused(const std::string& key) const { return refused_.contains(key); }
  void refuse(const std::string& key) { refused_.insert(key); }

  bool empty() const { return complaints_.empty(); }
  const std::vector<Complaint>& all() const { return complaints_; }
  // One line per complaint; `source` is the file name.
  std::string text(const std::string& source) const;

 private:
  std::vector<Complaint> complaints_;
  std::set<std::string> refused_;
};

}  // namespace trireme
