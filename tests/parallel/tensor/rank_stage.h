#pragma once
// A model as one rank of a tensor group trains it, for comparison with the same
// model alone.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/params/init.h"
#include "model/stage/stage.h"
#include "parallel/tensor/partial_gradients.h"
#include "parallel/tensor/sequence_region.h"
#include "tests/parallel/thread_communicator.h"
#include "tests/tiny_model.h"

namespace trireme::test {

enum class Family : std::uint8_t { kGpt2, kLlama, kQwen2, kQwen3, kOlmo2, kGemma3 };
inline constexpr const char* kFamilyNames[] = {"gpt2",  "llama", "qwen2",
                                               "qwen3", "olmo2", "gemma3_text"};

// Two layers with an odd vocabulary, of eight query heads on eight, one or two key-value heads.
inline ModelConfig small_model(Family family, bool tied) {
  ModelConfig m = tiny_model(kFamilyNames[static_cast<std::size_t>(family)],
                             {.vocab = 37,
                              .hidden = 24,
                              .mlp = 20,
                              .layers = 2,
                              .heads = 8,
                              .kv_heads = family == Family::kQwen2 ? 1 : 2,
                              .head_dim = 4,
                              .positions = 6});
  m.tie_word_embeddings = tied;
  return m;
}

// A logical tensor, or the box of one.
struct Held {
  Box box;
  bool counted;
  std::vector<double> values;
};
using HeldByName = std::map<std::string, Held>;

inline std::vector<double> to_doubles(const Tensor& t) {
  if (t.dtype == DType::kF64) return {t.as<double>(), t.as<double>() + t.count()};
  return {t.as<float>(), t.as<float>() + t.count()};
}

// Memory by its use. Planned without end, then made as large as planned.
struct StageArenas {
  Arena weights, masters, gradients, messages, keep, scratch;
  static StageArenas unbounded() {
    return {Arena::unbounded(), Arena::unbounded(), Arena::unbounded(),
            Arena::unbounded(), Arena::unbounded(), Arena::unbounded()};
  }
  std::vector<std::size_t> peaks() const {
    return {weights.peak(),  masters.peak(), gradients.peak(),
            messages.peak(), keep.peak(),    scratch.peak()};
  }
  static StageArenas of(const std::vector<std::size_t>& bytes) {
    return {Arena(bytes[0]), Arena(bytes[1]), Arena(bytes[2]),
            Arena(bytes[3]), Arena(bytes[4]), Arena(bytes[5])};
  }
};

struct StageSpec {
  ModelConfig model;
  Recompute recompute = Recompute::kNone;
  DType dtype = DType::kF64;
  std::int64_t pipeline = 1;  // stages, one after the other on the same rank
};

class RankStage {
 public:
  static constexpr std::int64_t kBatch = 2, kSeq = 6, kTokens = kBatch * kSeq;
  static constexpr int kMicroBatches = 2;

  RankStage(const StageSpec& spec, Stream& stream, Region& region,
            const std::vector<Communicator*>& groups, StageArenas& arenas)
      : arenas_(arenas), run_{stream, arenas.keep, arenas.scratch} {
    const std::int64_t layers = spec.model.num_hidden_layers;
    for (std::int64_t s = 0; s < spec.pipeline; ++s) {
      Part& part = parts_.emplace_back();
      part.stage.emplace(part.params, spec.model,
                         Stage::Spec{.first_block = layers * s / spec.pipeline,
                                     .end_block = layers * (s + 1) / spec.pipeline,
                                     .max_positions = kSeq,
                                     .recompute = spec.recompute},
                         Seams{region, core_}, hooks_);
      part.stage->allocate({arenas.weights, arenas.masters, &arenas.gradients}, spec.dtype,
                           !stream.executes());
      part.partial.emplace(part.params, groups, arenas.messages);
    }
    make_tokens(spec.model.vocab_size);
  }

  void initialize(std::uint64_t seed) {
    for (Part& part : parts_) part.params.initialize(seed);
  }
  // Every element a function of its place in the logical tensor, none of them zero.
  void fill_parameters() {
    each_param([](Param& param) { fill(param); });
  }

  // The losses of all tokens; leaves the gradients in the store.
  std::vector<double> step() {
    for (Part& part : parts_) part.params.expect_gradients();
    std::vector<double> losses = over_batches([&](const MicroBatch& batch) {
      Tensor passed;
      for (Part& part : parts_) {
        passed = part.stage->forward(run_, batch, passed, part.saved);
      }
      Tensor gradient;
      for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) {
        gradient = part->stage->backward(run_, gradient, part->saved);
      }
      return passed;
    });
    for (Part& part : parts_) {
      part.partial->sum(run_.stream);
      part.params.require_gradients();
    }
    return losses;
  }
  // The losses by forward alone.
  std::vector<double> evaluate() {
    return over_batches([&](const MicroBatch& batch) {
      Tensor passed;
      for (Part& part : parts_) passed = part.stage->evaluate(run_, batch, passed);
      return passed;
    });
  }

  HeldByName gradients() {
    return held([](const Param& param) { return param.grad; });
  }
  HeldByName masters() {
    return held([](const Param& param) { return param.master; });
  }
  template <class Visit>
  void each_param(const Visit& visit) {
    for (Part& part : parts_) {
      for (Weight& weight : part.params.weights()) {
        for (Param& param : weight.parts) visit(param);
      }
    }
  }
  std::vector<std::size_t> peaks() const { return arenas_.peaks(); }

 private:
  struct Part {
    ParamStore params;
    std::optional<Stage> stage;
    std::optional<PartialGradients> partial;
    Stage::Saved saved;
  };

  template <class Which>
  HeldByName held(const Which& which) {
    HeldByName all;
    each_param([&](const Param& param) {
      all[param.spec.name] = {param.box, param.is_primary_replica(), to_doubles(which(param))};
    });
    return all;
  }
  // What `losses_of` leaves of every micro-batch.
  template <class LossesOf>
  std::vector<double> over_batches(const LossesOf& losses_of) {
    std::vector<double> losses;
    for (const MicroBatch& batch : batches_) {
      run_.saved.reset();
      const Arena::Frame frame(run_.scratch);
      const Tensor loss = losses_of(batch);
      if (!run_.stream.executes()) continue;
      const std::vector<double> values = to_doubles(loss);
      losses.insert(losses.end(), values.begin(), values.end());
    }
    return losses;
  }

  static void fill(Param& param) {
    const Tensor& value = param.value;
    const int last = param.box.from.rank() - 1;
    const std::int64_t width = value.width();
    std::vector<float> line(width);
    for (std::int64_t row = 0; row < value.rows(); ++row) {
      const std::int64_t logical_row = last == 0 ? 0 : param.box.from[0] + row;
      ElementInit(Init::kNormal, 0.3, 7, param.spec.name)
          .fill(static_cast<std::uint64_t>(logical_row * param.spec.shape[last] +
                                           param.box.from[last]),
                line);
      const float mean = param.spec.init == Init::kOnes ? 1 : 0;
      for (std::int64_t i = 0; i < width; ++i) {
        const float drawn = mean + line[i];
        if (value.dtype == DType::kF64) {
          value.as<double>()[row * width + i] = drawn;
        } else {
          value.as<float>()[row * width + i] = drawn;
        }
      }
    }
  }

  // Documents end inside sequences, and at other places than ranks' shares do.
  void make_tokens(std::int64_t vocab) {
    const std::vector<std::int32_t> starts{0, 0, 0, 0, 4, 4, 0, 1, 1, 1, 1, 1};
    for (int m = 0; m < kMicroBatches; ++m) {
      std::vector<std::int32_t> ids, targets, positions;
      for (std::int32_t i = 0; i < kTokens; ++i) {
        const auto vocabulary = static_cast<std::int32_t>(vocab);
        ids.push_back((i * 11 + m * 5) % vocabulary);
        targets.push_back(i == 3 ? -1 : (i * 17 + m * 3 + 1) % vocabulary);
        positions.push_back(i % static_cast<std::int32_t>(kSeq) - starts[i]);
      }
      // The last word stands beside the padding.
      ids[5] = targets[6] = static_cast<std::int32_t>(vocab - 1);
      const Tensor scale = tables_.take({1}, DType::kF64);
      *scale.as<double>() = 1.0 / 22;
      batches_.push_back({.sequences = kBatch,
                          .seq_len = kSeq,
                          .ids = table(ids),
                          .targets = table(targets),
                          .positions = table(positions),
                          .document_start = table(starts),
                          .scale = scale});
    }
  }
  Tensor table(const std::vector<std::int32_t>& values) {
    const Tensor t = tables_.take({static_cast<std::int64_t>(values.size())}, DType::kI32);
    std::copy(values.begin(), values.end(), t.as<std::int32_t>());
    return t;
  }

  StageArenas& arenas_;
  ExecContext run_;
  AttentionCore core_;
  UnitHooks hooks_;
  std::deque<Part> parts_;
  Arena tables_{1 << 14};
  std::vector<MicroBatch> batches_;
};

// The groups of `ranks` ranks: all of them, and those that share a key-value head.
class TensorGroups {
 public:
  TensorGroups(const ModelConfig& model, int ranks)
      : all_(ranks), replicas_(key_value_replicas(model, ranks)) {
    for (int first = 0; first < ranks; first += replicas_) sharers_.emplace_back(replicas_);
  }
  std::vector<ThreadGroup*> groups() {
    std::vector<ThreadGroup*> groups{&all_};
    for (ThreadGroup& sharers : sharers_) groups.push_back(&sharers);
    return groups;
  }
  ThreadCommunicator tensor(int rank) { return {all_, rank}; }
  ThreadCommunicator sharers(int rank) { return {sharers_[rank / replicas_], rank % replicas_}; }

 private:
  ThreadGroup all_;
  int replicas_;
  std::deque<ThreadGroup> sharers_;
};

}  // namespace trireme::test
