#include <algorithm>
#include <cstdint>

#include "model/base/error.h"
#include "trainer/config/hints.h"
#include "trainer/config/option.h"
#include "trainer/config/rules.h"
#include "trainer/config/value_text.h"

namespace trireme {
namespace {

class CheckpointRules : public RuleCheck {
 public:
  using RuleCheck::RuleCheck;

  // Memory snapshots are lost with their node, so disk checkpoints must be frequent enough.
  void snapshots() {
    const std::int64_t each = c_.elastic.memory_interval, disk = c_.checkpoint.interval;
    check(
        each == 0 || (disk > 0 && each <= disk), {"elastic.memory_interval", "checkpoint.interval"},
        say("needs checkpoints on disk at least this many steps apart, but checkpoint.interval is ",
            disk, "; decrease memory_interval, or change checkpoint.interval"));
  }

  void upcycling() {
    const bool is_used = c_.model.num_experts > 0 && !c_.checkpoint.initial_load_path.empty();
    check(c_.checkpoint.upcycle_noise == 0 || is_used,
          {"checkpoint.upcycle_noise", "checkpoint.initial_load_path", "model.model_type"},
          "applies only when a model with experts starts from a dense checkpoint; set "
          "checkpoint.initial_load_path, or remove upcycle_noise");
  }

  void checkpoint() {
    const Keys& changes = c_.checkpoint.allow_changes;
    const auto may_be_listed = [](const std::string& key) {
      const Option* option = find_option(key);
      return key == "all" || key == "data.stages" ||
             (option != nullptr && option->effect == Effect::kNumerics);
    };
    const auto bad = std::find_if_not(changes.begin(), changes.end(), may_be_listed);
    if (bad == changes.end()) return;
    Keys known{"all", "data.stages"};
    for (const Option& option : options()) {
      if (option.effect == Effect::kNumerics) known.push_back(option.key);
    }
    const std::string near = nearest(*bad, known);
    check(
        false, {"checkpoint.allow_changes"},
        say(to_toml(*bad), " is neither a key that changes numerics, nor data.stages, nor \"all\"",
            near.empty() ? "" : "; did you mean ", near.empty() ? "" : to_toml(near) + "?"));
  }
};

}  // namespace

void checkpoint_rules(const LoadedConfig& loaded, Complaints& complaints, Purpose purpose) {
  CheckpointRules rules(loaded, complaints, purpose);
  rules.snapshots();
  rules.upcycling();
  rules.checkpoint();
}

}  // namespace trireme
