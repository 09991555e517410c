#include <algorithm>
#include <cmath>
#include <cstdint>

#include "model/base/error.h"
#include "trainer/config/batch_size.h"
#include "trainer/config/rules.h"
#include "trainer/config/sequence_length.h"
#include "trainer/config/value_text.h"

namespace trireme {
namespace {

class TrainingRules : public RuleCheck {
 public:
  using RuleCheck::RuleCheck;

  void training() {
    const TrainingConfig& t = c_.training;
    check(t.global_batch_size % t.local_batch_size == 0,
          {"training.global_batch_size", "training.local_batch_size"},
          say("must be a multiple of local_batch_size = ", t.local_batch_size));
    rampup();
    std::vector<std::int64_t> scales;
    for (std::int64_t scale = 1; scale <= kMostLossScale; scale *= 2) scales.push_back(scale);
    check(std::binary_search(scales.begin(), scales.end(), t.loss_scale_init),
          {"training.loss_scale_init"},
          say("is not a power of two; ", near(scales, t.loss_scale_init)));
    const Keys lengths{"training.steps", "training.tokens"};
    check(t.steps > 0 || t.tokens > 0 || purpose_ == Purpose::kInference, lengths,
          "set the length of the run: training.steps or training.tokens", false);
    check(t.steps == 0 || t.tokens == 0, lengths,
          say("conflicts with training.tokens = ", t.tokens, "; set one of them to 0"));
    if (t.steps == 0 && t.tokens == 0) return;
    const std::int64_t steps = total_steps(c_);
    const double tokens = static_cast<double>(c_.training.global_batch_size) *
                          static_cast<double>(longest_seq_len(c_));
    check(static_cast<double>(steps) * tokens < 4e18, lengths, "more tokens than can be counted");
    schedule(steps);
  }

 private:
  void rampup() {
    const TrainingConfig& t = c_.training;
    if (t.rampup_batch_size.empty()) return;
    BatchSize before{0, 0};
    for (const BatchSize& size : t.rampup_batch_size) {
      const auto wrong = [&](bool holds, const std::string& what) {
        check(holds, {kRampupKey}, say("[", size.from_step, ", ", size.sequences, "]: ", what),
              false);
      };
      wrong(before.from_step > 0 || size.from_step == 1, "the first entry must be for step 1");
      wrong(size.from_step > before.from_step && size.sequences > before.sequences,
            "steps and batch sizes must be ascending");
      wrong(size.sequences % t.local_batch_size == 0,
            trireme::say("must be a multiple of local_batch_size = ", t.local_batch_size));
      before = size;
    }
    check(before.sequences == t.global_batch_size, {kRampupKey, "training.global_batch_size"},
          say("ends with ", before.sequences, " sequences, but training.global_batch_size is ",
              t.global_batch_size, "; make them equal, or remove global_batch_size"));
  }

  void schedule(std::int64_t steps) {
    const LrScheduleOptions& s = c_.lr_scheduler;
    const Keys keys{"lr_scheduler.warmup_steps", "training.steps", "training.tokens",
                    "lr_scheduler.decay_ratio"};
    if (!find_lr_schedule(s.name).ends_in_decay || s.warmup_steps > steps) return;
    const double decay = std::floor(s.decay_ratio * static_cast<double>(steps));
    check(static_cast<double>(s.warmup_steps) + decay <= static_cast<double>(steps), keys,
          say("warmup and decay_ratio = ", to_toml(s.decay_ratio), " together exceed the ",
              "run of ", steps, " steps"));
  }
};

}  // namespace

void training_rules(const LoadedConfig& loaded, Complaints& complaints, Purpose purpose) {
  TrainingRules rules(loaded, complaints, purpose);
  rules.training();
}

}  // namespace trireme
