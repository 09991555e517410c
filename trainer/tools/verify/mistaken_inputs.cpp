#include "trainer/tools/verify/mistakes.h"

#include <algorithm>

#include "model/base/error.h"
#include "trainer/tools/verify/elements.h"
#include "trainer/tools/verify/mistaken_group.h"
#include "trainer/tools/verify/samples.h"
#include "trainer/tools/verify/subject.h"

namespace trireme::verify {
namespace {

using flight::Operation;
using flight::Phase;

const Param* find(const Subject& subject, const std::string& name) {
  for (const Weight& weight : subject.engine().model().params().weights()) {
    for (const Param& param : weight.parts) {
      if (param.spec.name == name) return &param;
    }
  }
  return nullptr;
}

data::TokenBatch micro_batch(const Subject& subject, std::int64_t own) {
  const std::int64_t size = subject.engine().spec().training.local_batch_size;
  return subject.engine().batch().part(own * size, size);
}

void refill(const Subject& subject, const Samples& samples, std::int64_t step, std::int64_t own,
            std::int64_t number) {
  const data::TokenBatch part = micro_batch(subject, own);
  samples.fill_part(part, samples.first_of(step) + number * part.sequences);
}

// Assigns key heads to the tensor ranks in reverse order.
class SwappedHeads final : public Mistake {
 public:
  void in_first_weights(const Subject& subject) override {
    const auto seed = static_cast<std::uint64_t>(subject.config().job.seed);
    for (const ParamShard& shard : subject.engine().model().params().shards()) {
      const ParamSpec& spec = shard.param->spec;
      const Slice slice = spec.cut.slice;
      if (spec.name != "layers.0.attention.k.weight" || slice.count == 1) continue;
      const std::int64_t part = spec.shape.count() / slice.count;
      std::vector<float> values(static_cast<std::size_t>(shard.count()));
      fill_initial(spec, seed, (slice.count - 1 - slice.index) * part + shard.first, values);
      write_elements(subject.stream(), shard.master, values);
      note_made();
    }
    subject.engine().model().publish_masters(subject.engine().stream());
    subject.engine().model().finish_publishing();
  }
};

// Removes the targets of the second micro-batch of the first data rank.
class LostMicroBatch final : public Mistake {
 public:
  void in_batch(const Subject& subject, const Samples& /*samples*/, std::int64_t step) override {
    const Engine& engine = subject.engine();
    if (engine.data_rank() != 0 || engine.spec().micro_batches < 2 || step < 1) return;
    const data::TokenBatch part = micro_batch(subject, 1);
    std::ranges::fill(part.targets, -1);
    note_made();
  }
};

// Replaces the second micro-batch of the first data rank by the first.
class DoubledMicroBatch final : public Mistake {
 public:
  void in_batch(const Subject& subject, const Samples& samples, std::int64_t step) override {
    Engine& engine = subject.engine();
    if (engine.data_rank() != 0 || engine.spec().micro_batches < 2 || step < 1) return;
    refill(subject, samples, step, 1, engine.micro_batches().number(0, 0));
    note_made();
  }
};

// Every data rank reads the samples of the first.
class SameData final : public Mistake {
 public:
  void in_batch(const Subject& subject, const Samples& samples, std::int64_t step) override {
    Engine& engine = subject.engine();
    if (step < 1 || subject.groups().data->size() == 1) return;
    for (std::int64_t own = 0; own < engine.spec().micro_batches; ++own) {
      refill(subject, samples, step, own, engine.micro_batches().number(0, own));
    }
    note_made();
  }
};

// The second tensor rank's vocabulary shard begins one token too early, for the embedding or for
// the loss.
class ShiftedVocabulary final : public Mistake {
 public:
  explicit ShiftedVocabulary(bool of_targets) : of_targets_(of_targets) {}
  void in_batch(const Subject& subject, const Samples& /*samples*/, std::int64_t step) override {
    if (step < 1 || subject.groups().tensor->rank() != 1) return;
    const data::TokenBatch batch = subject.engine().batch();
    for (std::int32_t& id : of_targets_ ? batch.targets : batch.ids) {
      if (id >= 0 && id + 1 < subject.config().model.vocab_size) ++id;
    }
    note_made();
  }

 private:
  bool of_targets_;
};

// Averages the loss over the tokens of a data rank or a micro-batch instead of the step.
class FewerTokens final : public Mistake {
 public:
  explicit FewerTokens(bool of_rank) : of_rank_(of_rank) {}
  std::int64_t in_valid_tokens(const Subject& subject, std::int64_t valid) override {
    const std::int64_t parts =
        of_rank_ ? subject.groups().data->size() : subject.engine().spec().micro_batches;
    if (parts > 1) note_made();
    return valid / parts;
  }

 private:
  bool of_rank_;
};

class LostPositionGradient final : public Mistake {
 public:
  void in_gradients(const Subject& subject) override {
    for (const ParamShard& shard : subject.engine().model().params().shards()) {
      if (shard.param->spec.name != "position.weight") continue;
      write_elements(subject.stream(), shard.grad, std::vector<float>(shard.count()));
      note_made();
    }
  }
};

// Sums a replicated bias gradient over the tensor ranks.
class SummedBiasGradient final : public Mistake {
 public:
  void in_gradients(const Subject& subject) override {
    for (const ParamShard& shard : subject.engine().model().params().shards()) {
      const ParamSpec& spec = shard.param->spec;
      if (!spec.name.ends_with(".o.bias") || spec.partial) continue;
      subject.groups().tensor->all_reduce(subject.stream(), shard.grad, Reduce::kSum);
      if (subject.groups().tensor->size() > 1) note_made();
    }
  }
};

// The optimizer always uses the bias correction of the first step.
class OldStepCount final : public Mistake {
 public:
  std::int64_t in_update_number(std::int64_t update) override {
    if (update > 1) note_made();
    return 1;
  }
};

// Every tensor rank adds the bias to its partial sum.
class BiasOnEveryRank final : public Mistake {
 public:
  void make_in(RankGroups& groups) override {
    if (groups.tensor->size() == 1) return;
    const int more = groups.tensor->size() - 1;
    groups.tensor = std::make_unique<MistakenGroup>(
        std::move(groups.tensor), *groups.recorder,
        MistakenGroup::Options{
            .calls = {Operation::kAllReduce, Phase::kForward, /*layer=*/1, /*nth=*/1},
            .fault = GroupFault::kModify,
            .modify = [this, more](Stream& stream, Tensor sum) { add_bias(stream, sum, more); }});
  }
  void in_first_weights(const Subject& subject) override { subject_ = &subject; }

 private:
  void add_bias(Stream& stream, Tensor sum, int times) {
    const Param* const bias = subject_ ? find(*subject_, "layers.1.mlp.down.bias") : nullptr;
    if (!bias) return;
    const std::vector<double> add = read_elements(stream, bias->value);
    const std::vector<double> before = read_elements(stream, sum);
    std::vector<float> values;
    for (std::size_t i = 0; i < before.size(); ++i) {
      values.push_back(static_cast<float>(before[i] + times * add[i % add.size()]));
    }
    write_elements(stream, sum, values);
    note_made();
  }
  const Subject* subject_ = nullptr;
};

// The global norm counts replicated parameters once per tensor rank.
class DoubledNorm final : public Mistake {
 public:
  void make_in(RankGroups& groups) override {
    if (groups.model_state->size() == 1) return;
    groups.model_state = std::make_unique<MistakenGroup>(
        std::move(groups.model_state), *groups.recorder,
        MistakenGroup::Options{
            .calls = {Operation::kAllReduce, Phase::kGradNorm},
            .fault = GroupFault::kModify,
            .modify = [this](Stream& stream, Tensor squares) { add_squares(stream, squares); },
            .modify_before = true});
  }
  void in_first_weights(const Subject& subject) override { subject_ = &subject; }

 private:
  void add_squares(Stream& stream, Tensor squares) {
    if (!subject_) return;
    double sum = 0;
    for (const ParamShard& shard : subject_->engine().model().params().shards()) {
      if (shard.param->is_primary_replica() || shard.count() == 0) continue;
      for (const double value : read_elements(stream, shard.grad)) sum += value * value;
    }
    if (sum > 0) note_made();
    const Tensor first = squares.slice(0, 1);
    const double value = read_elements(stream, first).front() + sum;
    write_double(stream, first, value);
  }
  static void write_double(Stream& stream, const Tensor& to, double value) {
    write_elements(stream, to, std::vector<float>{static_cast<float>(value)});
  }
  const Subject* subject_ = nullptr;
};

template <class SomeMistake, auto... kArguments>
std::unique_ptr<Mistake> made() {
  return std::make_unique<SomeMistake>(kArguments...);
}

}  // namespace

std::map<std::string, std::function<std::unique_ptr<Mistake>()>> input_mistakes() {
  return {{"swapped-key-heads", made<SwappedHeads>},
          {"lost-micro-batch", made<LostMicroBatch>},
          {"doubled-micro-batch", made<DoubledMicroBatch>},
          {"same-data", made<SameData>},
          {"shifted-vocabulary", made<ShiftedVocabulary, false>},
          {"shifted-targets", made<ShiftedVocabulary, true>},
          {"tokens-of-one-rank", made<FewerTokens, true>},
          {"tokens-of-one-micro-batch", made<FewerTokens, false>},
          {"lost-position-gradient", made<LostPositionGradient>},
          {"summed-bias-gradient", made<SummedBiasGradient>},
          {"old-step-count", made<OldStepCount>},
          {"bias-on-every-rank", made<BiasOnEveryRank>},
          {"doubled-norm", made<DoubledNorm>}};
}

}  // namespace trireme::verify
