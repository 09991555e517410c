#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/config/complaints.h"

namespace trireme {

// Use of a config: a training run; planning, which needs no data; or inference with a trained
// model, which needs neither data nor a number of steps.
enum class Purpose : std::uint8_t { kTraining, kPlanning, kInference };

// Checks rules between keys: missing and conflicting values.
void check_rules(const LoadedConfig& loaded, Complaints& complaints,
                 Purpose purpose = Purpose::kTraining);

// The same in two parts, for many layouts of one run: the rules without keys of [parallelism] and
// [activation_checkpoint] and without training.local_batch_size; and, of a config that holds those,
// all others.
void check_rules_of_run(const LoadedConfig& loaded, Complaints& complaints, Purpose purpose);
void check_rules_of_layout(const LoadedConfig& loaded, Complaints& complaints, Purpose purpose);

// Base class of the rules of each subject. A rule is a call of check() in the file of its subject.
class RuleCheck {
 public:
  // Both must outlive this.
  RuleCheck(const LoadedConfig& loaded, Complaints& complaints, Purpose purpose)
      : loaded_(loaded), c_(loaded.config), complaints_(complaints), purpose_(purpose) {}

 protected:
  using Keys = std::vector<std::string>;

  // If `holds` is false, reports `what` at the first key that was given, unless one of the keys was
  // refused already.
  void check(bool holds, const Keys& keys, const std::string& what, bool shows_value = true);
  bool refused_any(const Keys& keys) const;

  static std::vector<std::int64_t> divisors(std::int64_t whole);
  // "possible near 3: 2, 4"; values are in ascending order.
  static std::string near(const std::vector<std::int64_t>& possible, std::int64_t value);

  const LoadedConfig& loaded_;
  const RunConfig& c_;
  Complaints& complaints_;
  const Purpose purpose_;

 private:
  std::string value(const std::string& key) const;
};

// The rules of one subject, in model_rules.cpp and so on.
void model_rules(const LoadedConfig& loaded, Complaints& complaints, Purpose purpose);
void training_rules(const LoadedConfig& loaded, Complaints& complaints, Purpose purpose);
void data_rules(const LoadedConfig& loaded, Complaints& complaints, Purpose purpose);
void layout_rules(const LoadedConfig& loaded, Complaints& complaints, Purpose purpose);
void checkpoint_rules(const LoadedConfig& loaded, Complaints& complaints, Purpose purpose);

}  // namespace trireme
