#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/config/complaints.h"
#include "trainer/config/rules.h"

namespace trireme {

// What the rules of all subjects are checked with. A rule is a call of check() in the file of its
// subject.
class RuleCheck {
 public:
  // Both outlive it.
  RuleCheck(const LoadedConfig& loaded, Complaints& complaints, Purpose purpose)
      : loaded_(loaded), c_(loaded.config), complaints_(complaints), purpose_(purpose) {}

 protected:
  using Keys = std::vector<std::string>;

  // Complains at the first of the keys that somebody gave, unless one of them has been
  // refused already.
  void check(bool holds, const Keys& keys, const std::string& what, bool shows_value = true);
  bool refused_any(const Keys& keys) const;

  static std::vector<std::int64_t> divisors(std::int64_t whole);
  // "possible near 3: 2, 4", of values in rising order.
  static std::string near(const std::vector<std::int64_t>& possible, std::int64_t value);

  const LoadedConfig& loaded_;
  const RunConfig& c_;
  Complaints& complaints_;
  const Purpose purpose_;

 private:
  std::string value(const std::string& key) const;
};

}  // namespace trireme
