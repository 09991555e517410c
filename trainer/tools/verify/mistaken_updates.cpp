#include "trainer/tools/verify/mistakes.h"

#include "trainer/engine/engine.h"
#include "trainer/tools/verify/elements.h"
#include "trainer/tools/verify/subject.h"

namespace trireme::verify {
namespace {

bool is_last_stage(const Subject& subject) {
  const Communicator& stages = *subject.groups().pp_forward;
  return stages.size() > 1 && stages.rank() == stages.size() - 1;
}

// Divides the loss by one micro-batch too many.
class ScaledLoss final : public Mistake {
 public:
  void in_first_weights(const Subject& subject) override {
    const auto count = static_cast<double>(subject.engine().spec().micro_batches);
    if (count < 2) return;
    subject.engine().scale_loss(subject.loss_scale() * (count - 1) / count);
    note_made();
  }
};

// The second data rank's slice of a step begins one sample too late.
class ShiftedSlice final : public Mistake {
 public:
  std::uint64_t in_first_sample(const Subject& subject, std::uint64_t first) override {
    if (subject.groups().data->rank() != 1) return first;
    note_made();
    return first + 1;
  }
};

class HalvedClip final : public Mistake {
 public:
  void in_spec(EngineSpec& spec) override {
    if (spec.training.max_norm == 0) return;
    spec.training.max_norm /= 2;
    note_made();
  }
};

// A sharded optimizer applies no weight decay.
class LostDecay final : public Mistake {
 public:
  void in_spec(EngineSpec& spec) override {
    if (spec.parallelism.data_shard == 1 || spec.optimizer.weight_decay == 0) return;
    spec.optimizer.weight_decay = 0;
    note_made();
  }
};

// The last stage uses half the learning rate.
class SlowStage final : public Mistake {
 public:
  double in_learning_rate(const Subject& subject, double rate) override {
    if (!is_last_stage(subject)) return rate;
    note_made();
    return rate / 2;
  }
};

// The last stage does not update its copy of the tied embedding table.
class StaleTiedTable final : public Mistake {
 public:
  void in_weights(const Subject& subject) override {
    if (!is_last_stage(subject)) return;
    const auto seed = static_cast<std::uint64_t>(subject.config().job.seed);
    for (const ParamShard& shard : subject.engine().model().params().shards()) {
      const ParamSpec& spec = shard.param->spec;
      if (spec.name != ModelState::kEmbedding) continue;
      for_each_range(*shard.param, shard.first, shard.count(),
                     [&](std::int64_t here, std::int64_t logical, std::int64_t count) {
                       std::vector<float> values(count);
                       fill_initial(spec, seed, logical, values);
                       write_elements(subject.stream(), shard.master.slice(here, count), values);
                     });
      note_made();
    }
  }
};

template <class SomeMistake>
std::unique_ptr<Mistake> planted() {
  return std::make_unique<SomeMistake>();
}

}  // namespace

std::map<std::string, std::function<std::unique_ptr<Mistake>()>> update_mistakes() {
  return {{"scaled-loss", planted<ScaledLoss>}, {"shifted-slice", planted<ShiftedSlice>},
          {"halved-clip", planted<HalvedClip>}, {"lost-decay", planted<LostDecay>},
          {"slow-stage", planted<SlowStage>},   {"stale-tied-table", planted<StaleTiedTable>}};
}

}  // namespace trireme::verify
