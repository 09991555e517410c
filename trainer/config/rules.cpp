#include "trainer/config/rules.h"

#include <algorithm>

#include "model/base/error.h"
#include "trainer/config/option.h"
#include "trainer/config/sequence_length.h"
#include "trainer/config/value_text.h"

namespace trireme {

void RuleCheck::report(const Keys& keys, const std::string& what, bool shows_value) {
  for (const std::string& key : keys) {
    if (complaints_.has_refused(key)) return;
  }
  const auto given = std::find_if(keys.begin(), keys.end(), [this](const std::string& key) {
    return loaded_.origin(key).is_given();
  });
  const std::string& first = keys.front();
  if (given == keys.end() || *given == first) {
    complaints_.add({loaded_.origin(first), first, shows_value ? value(first) : "", what});
  } else {
    // The message is about the first key, whose value is derived.
    complaints_.add({loaded_.origin(*given), *given, value(*given),
                     trireme::say(first, shows_value ? " = " + value(first) : "", ": ", what)});
  }
}

bool RuleCheck::refused_any(const Keys& keys) const {
  return std::any_of(keys.begin(), keys.end(),
                     [this](const std::string& key) { return complaints_.has_refused(key); });
}

std::vector<std::int64_t> RuleCheck::divisors(std::int64_t whole) {
  std::vector<std::int64_t> all;
  for (std::int64_t d = 1; d * d <= whole; ++d) {
    if (whole % d != 0) continue;
    all.push_back(d);
    if (d != whole / d) all.push_back(whole / d);
  }
  std::sort(all.begin(), all.end());
  return all;
}

std::ostream& operator<<(std::ostream& to, const RuleCheck::Near& near) {
  const auto& [possible, value] = near;
  to << "possible near " << value << ": ";
  const auto above = std::upper_bound(possible.begin(), possible.end(), value);
  if (above != possible.begin() && *(above - 1) > 0) {
    to << *(above - 1) << (above != possible.end() ? ", " : "");
  }
  if (above != possible.end()) to << *above;
  return to;
}

std::ostream& operator<<(std::ostream& to, const RuleCheck::NearDivisor& near) {
  return to << RuleCheck::near(RuleCheck::divisors(near.whole), near.value);
}

std::string RuleCheck::value(const std::string& key) const {
  RunConfig config = c_;
  return shown(to_toml(find_option(key)->slot(config)));
}

namespace {

// What a run must hold at every sequence length.
void rules_of_sequences(const LoadedConfig& loaded, Complaints& complaints, Purpose purpose) {
  model_rules(loaded, complaints, purpose);
  if (purpose != Purpose::kInference) data_rules(loaded, complaints, purpose);
  layout_rules(loaded, complaints, purpose);
}

// Of a config without complaints. Reports the first of each stage.
void check_stages(const LoadedConfig& loaded, Complaints& complaints, Purpose purpose) {
  const std::vector<SequenceLength> lengths = sequence_lengths(loaded.config);
  for (std::size_t i = 1; i < lengths.size(); ++i) {
    LoadedConfig of_stage = loaded;
    of_stage.config = with_length(loaded.config, lengths[i]);
    Complaints found;
    rules_of_sequences(of_stage, found, purpose);
    if (found.empty()) continue;
    const Complaints::Complaint& first = found.all().front();
    const std::string value = first.value.empty() ? "" : say(" = ", first.value);
    complaints.add(
        {loaded.origin("data.stages"), "data.stages", "",
         say("from_step = ", lengths[i].from_step, ": ", first.key, value, ": ", first.what)});
  }
}

}  // namespace

void check_rules_of_run(const LoadedConfig& loaded, Complaints& complaints, Purpose purpose) {
  model_rules(loaded, complaints, purpose);
  checkpoint_rules(loaded, complaints, purpose);
}

void check_rules_of_layout(const LoadedConfig& loaded, Complaints& complaints, Purpose purpose) {
  training_rules(loaded, complaints, purpose);
  if (purpose != Purpose::kInference) data_rules(loaded, complaints, purpose);
  layout_rules(loaded, complaints, purpose);
  if (complaints.empty()) check_stages(loaded, complaints, purpose);
}

void check_rules(const LoadedConfig& loaded, Complaints& complaints, Purpose purpose) {
  model_rules(loaded, complaints, purpose);
  training_rules(loaded, complaints, purpose);
  if (purpose != Purpose::kInference) data_rules(loaded, complaints, purpose);
  layout_rules(loaded, complaints, purpose);
  checkpoint_rules(loaded, complaints, purpose);
  if (complaints.empty()) check_stages(loaded, complaints, purpose);
}

}  // namespace trireme
