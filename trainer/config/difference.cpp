#include "trainer/config/difference.h"

#include "trainer/config/value_text.h"

namespace trireme {
namespace {

// The curves that are stretched when the run gets longer.
bool curve_depends_on_length(const RunConfig& config) {
  return find_lr_schedule(config.lr_scheduler.name).depends_on_length;
}

// Megatron-LM shuffles a run of other length otherwise.
bool order_depends_on_length(const RunConfig& before, const RunConfig& after) {
  const bool is_megatron = before.data.order == "megatron" && after.data.order == "megatron";
  return is_megatron && order_samples(before) != order_samples(after);
}

Effect effect_of(const Option& option, const RunConfig& before, const RunConfig& after) {
  const bool is_length = option.key == "training.steps" || option.key == "training.tokens";
  if (is_length && order_depends_on_length(before, after)) return Effect::kData;
  if (is_length) {
    const bool same_length = total_steps(before) == total_steps(after);
    const bool matters = curve_depends_on_length(before) || curve_depends_on_length(after);
    return matters && !same_length ? Effect::kNumerics : Effect::kBookkeeping;
  }
  if (option.key == "model.max_position_embeddings") {
    const bool is_learned = after.model.position == PositionKind::kLearned;
    return is_learned ? Effect::kNumerics : Effect::kBookkeeping;
  }
  return option.effect;
}

}  // namespace

std::vector<Change> difference(const RunConfig& before, const RunConfig& after) {
  RunConfig old_config = before;  // slots point to mutable members
  RunConfig new_config = after;
  std::vector<Change> changes;
  for (const Option& option : options()) {
    const auto applies = [&option](const RunConfig& config) {
      return option.applies == nullptr || option.applies(config);
    };
    const std::string was = applies(before) ? to_toml(option.slot(old_config)) : "";
    const std::string is = applies(after) ? to_toml(option.slot(new_config)) : "";
    if (was != is) changes.push_back({option.key, was, is, effect_of(option, before, after)});
  }
  return changes;
}

std::string effect_text(Effect effect) {
  switch (effect) {
    case Effect::kBookkeeping:
      return "bookkeeping";
    case Effect::kLayout:
      return "layout only";
    case Effect::kPerformance:
      return "performance only";
    case Effect::kNumerics:
      return "changes numerics";
    case Effect::kData:
      return "changes data";
  }
  return "";
}

}  // namespace trireme
