#include "trainer/loop/allowed_changes.h"

#include <algorithm>
#include <string_view>

#include "model/base/error.h"
#include "trainer/config/value_text.h"

namespace trireme {
namespace {

constexpr const char* kAll = "all";

bool has(const std::vector<std::string>& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

bool is_bad_step_policy(std::string_view key) {
  return key.starts_with("training.on_") || key.starts_with("training.spike_") ||
         key == "training.max_skips";
}

bool is_of_the_rate(std::string_view key) {
  return key == "optimizer.lr" || key.starts_with("lr_scheduler.") || key == "training.steps" ||
         key == "training.tokens";
}

bool same_rates(const RunConfig& before, const RunConfig& after, std::int64_t steps) {
  const auto rate = [](const RunConfig& config, std::int64_t step) {
    return learning_rate(config.lr_scheduler, config.optimizer.lr, step, total_steps(config));
  };
  for (std::int64_t step = 1; step <= steps; ++step) {
    if (rate(before, step) != rate(after, step)) return false;
  }
  return true;
}

}  // namespace

NumericChanges numeric_changes(const RunConfig& before, const RunConfig& after, std::int64_t step) {
  const bool rates_are_the_same = same_rates(before, after, step);
  NumericChanges found;
  for (const Change& change : difference(before, after)) {
    if (change.effect != Effect::kNumerics || is_bad_step_policy(change.key)) continue;
    if (rates_are_the_same && is_of_the_rate(change.key)) continue;
    const bool allowed = allows_all(after) || has(after.checkpoint.allow_changes, change.key);
    (allowed ? found.allowed : found.refused).push_back(change);
  }
  return found;
}

std::string lines_of(const std::vector<Change>& changes) {
  std::string lines;
  for (const Change& change : changes) {
    lines += say("\n  ", change.key, ": ", change.before, " -> ", change.after);
  }
  return lines;
}

std::string refusal_text(const NumericChanges& changes, const RunConfig& after) {
  std::vector<std::string> keys = after.checkpoint.allow_changes;
  for (const Change& change : changes.refused) keys.push_back(change.key);
  const std::string list = to_toml(Slot(&keys));
  return say(lines_of(changes.refused),
             "\nUndo the change, or allow it: [checkpoint] allow_changes = ", list,
             ", or --checkpoint.allow_changes='", list, "'");
}

bool allows_all(const RunConfig& config) {
  return has(config.checkpoint.allow_changes, kAll);
}

}  // namespace trireme
