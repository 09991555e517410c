#pragma once
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "model/base/error.h"
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
  // refused already. A search checks the rules of thousands of layouts, most of which break none:
  // texts are put together for those that do.
  template <class Text>
  void check(bool holds, std::initializer_list<std::string_view> keys, const Text& what,
             bool shows_value = true) {
    if (!holds) report(Keys(keys.begin(), keys.end()), text_of(what), shows_value);
  }
  template <class Text>
  void check(bool holds, const Keys& keys, const Text& what, bool shows_value = true) {
    if (!holds) report(keys, text_of(what), shows_value);
  }
  bool refused_any(const Keys& keys) const;

  // The text of trireme::say, later; for an argument of check alone, as it refers to the parts.
  template <class... Parts>
  static auto say(const Parts&... parts) {
    return [&parts...] { return trireme::say(parts...); };
  }

  static std::vector<std::int64_t> divisors(std::int64_t whole);
  // "possible near 3: 2, 4", as part of a text; possible values are in ascending order.
  struct Near {
    std::vector<std::int64_t> possible;
    std::int64_t value;
  };
  static Near near(std::vector<std::int64_t> possible, std::int64_t value) {
    return {std::move(possible), value};
  }
  friend std::ostream& operator<<(std::ostream& to, const Near& near);
  // The same, of the divisors of `whole`.
  struct NearDivisor {
    std::int64_t whole, value;
  };
  static NearDivisor near_divisor(std::int64_t whole, std::int64_t value) { return {whole, value}; }
  friend std::ostream& operator<<(std::ostream& to, const NearDivisor& near);

  const LoadedConfig& loaded_;
  const RunConfig& c_;
  Complaints& complaints_;
  const Purpose purpose_;

 private:
  static std::string text_of(std::string_view text) { return std::string(text); }
  template <class Later>
  requires std::is_invocable_v<Later>
  static std::string text_of(const Later& later) { return later(); }
  void report(const Keys& keys, const std::string& what, bool shows_value);
  std::string value(const std::string& key) const;
};

// The rules of one subject, in model_rules.cpp and so on.
void model_rules(const LoadedConfig& loaded, Complaints& complaints, Purpose purpose);
void training_rules(const LoadedConfig& loaded, Complaints& complaints, Purpose purpose);
void data_rules(const LoadedConfig& loaded, Complaints& complaints, Purpose purpose);
void layout_rules(const LoadedConfig& loaded, Complaints& complaints, Purpose purpose);
void checkpoint_rules(const LoadedConfig& loaded, Complaints& complaints, Purpose purpose);

}  // namespace trireme
