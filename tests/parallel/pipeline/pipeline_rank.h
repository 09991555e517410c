#pragma once
// A small model as the ranks of a pipeline train it, each rank a thread.
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "parallel/pipeline/pipeline.h"
#include "parallel/pipeline/slots.h"
#include "tests/parallel/thread_communicator.h"
#include "tests/tiny_model.h"

namespace trireme::test {

// Eight blocks in the way of GPT-2, but with a head of its own, or of Qwen3.
inline ModelConfig eight_blocks(bool gpt2) {
  ModelConfig m = tiny_model(
      gpt2 ? "gpt2" : "qwen3",
      {.vocab = 19, .hidden = 16, .mlp = 24, .layers = 8, .head_dim = 4, .positions = 6});
  m.tie_word_embeddings = false;
  return m;
}

struct PipelineSpec {
  ModelConfig model;
  Recompute recompute = Recompute::kNone;
  DType dtype = DType::kF32;
  Schedule schedule;
};

// Bits by name: of gradients, or of a micro-batch's losses.
using Bits = std::map<std::string, std::vector<std::byte>>;

inline std::vector<std::byte> bits_of(const Tensor& tensor) {
  return {tensor.data, tensor.data + tensor.bytes()};
}

struct PipelineArenas {
  Arena weights, masters, gradients, scratch, messages, tokens;
  std::deque<Arena> keeps;

  static PipelineArenas unbounded(int slots) {
    PipelineArenas arenas{Arena::unbounded(),
                          Arena::unbounded(),
                          Arena::unbounded(),
                          Arena::unbounded(),
                          Arena::unbounded(),
                          Arena(1 << 16),
                          {}};
    for (int i = 0; i < slots; ++i) arenas.keeps.push_back(Arena::unbounded());
    return arenas;
  }
  // As large as those have grown.
  static PipelineArenas like(const PipelineArenas& planned) {
    PipelineArenas arenas{Arena(planned.weights.peak()),
                          Arena(planned.masters.peak()),
                          Arena(planned.gradients.peak()),
                          Arena(planned.scratch.peak()),
                          Arena(planned.messages.peak()),
                          Arena(1 << 16),
                          {}};
    for (const Arena& keep : planned.keeps) arenas.keeps.emplace_back(keep.peak());
    return arenas;
  }
  std::vector<std::size_t> peaks() const {
    std::vector<std::size_t> all{scratch.peak(), messages.peak()};
    for (const Arena& keep : keeps) all.push_back(keep.peak());
    return all;
  }
};

class PipelineRank {
 public:
  static constexpr std::int64_t kBatch = 2, kSeq = 6, kTokens = kBatch * kSeq;

  PipelineRank(const PipelineSpec& spec, Stream& stream, Pipeline::Links links,
               PipelineArenas& arenas)
      : stream_(stream) {
    const std::int64_t layers = spec.model.num_hidden_layers;
    const std::int64_t stages = spec.schedule.stages;
    std::vector<const Stage*> pointers;
    for (const int s : stages_of_rank(spec.schedule, links.down.rank())) {
      Part& part = parts_.emplace_back();
      part.stage.emplace(part.params, spec.model,
                         Stage::Spec{.first_block = layers * s / stages,
                                     .end_block = layers * (s + 1) / stages,
                                     .max_positions = kSeq,
                                     .recompute = spec.recompute},
                         Seams{region_, core_}, hooks_);
      part.stage->allocate({arenas.weights, arenas.masters, &arenas.gradients}, spec.dtype,
                           !stream.executes());
      if (stream.executes()) part.params.initialize(11);
      pointers.push_back(&*part.stage);
    }
    make_tokens(arenas.tokens, spec.schedule.micro_batches, spec.model.vocab_size);
    pipeline_.emplace(pointers, std::span(&spec.schedule, 1),
                      Shape{kTokens, spec.model.hidden_size}, links,
                      Pipeline::Memory{arenas.keeps, arenas.scratch, arenas.messages});
  }

  // The losses and, unless it only evaluates, the gradients of a step.
  Bits train() {
    Bits bits;
    for (Part& part : parts_) part.params.expect_gradients();
    pipeline_->run(stream_, load(), collect_losses(bits));
    for (Part& part : parts_) {
      part.params.require_gradients();
      for (const Weight& weight : part.params.weights()) {
        for (const Param& param : weight.parts) add(bits, param.spec.name, param.grad);
      }
    }
    return bits;
  }
  Bits evaluate() {
    Bits bits;
    pipeline_->evaluate(stream_, load(), collect_losses(bits));
    return bits;
  }
  Pipeline& pipeline() { return *pipeline_; }

 private:
  struct Part {
    ParamStore params;
    std::optional<Stage> stage;
  };

  void make_tokens(Arena& arena, int micro_batches, std::int64_t vocab) {
    for (int m = 0; m < micro_batches; ++m) {
      const auto table = [&](const auto& value) {
        const Tensor tensor = arena.take({kTokens}, DType::kI32);
        for (std::int64_t i = 0; i < kTokens; ++i) {
          tensor.as<std::int32_t>()[i] = static_cast<std::int32_t>(value(i));
        }
        return tensor;
      };
      const Tensor scale = arena.take({1}, DType::kF64);
      *scale.as<double>() = 0.1;
      // Two documents in each sequence; the last of a sequence has nothing to predict.
      batches_.push_back(
          {.sequences = kBatch,
           .seq_len = kSeq,
           .ids = table([&](std::int64_t i) { return (7 * i + 5 * m) % vocab; }),
           .targets = table([&](std::int64_t i) {
             return i % kSeq == kSeq - 1 ? -1 : (3 * i + 2 * m + 1) % vocab;
           }),
           .positions = table([](std::int64_t i) { return i % kSeq % 4; }),
           .document_start = table([](std::int64_t i) { return i % kSeq < 4 ? 0 : 4; }),
           .scale = scale});
    }
  }
  Pipeline::Load load() const {
    return [this](int m, int /*slot*/) { return batches_[m]; };
  }
  Pipeline::OnLoss collect_losses(Bits& bits) const {
    return [this, &bits](int m, Tensor loss) { add(bits, say("loss ", m), loss); };
  }
  void add(Bits& bits, const std::string& name, const Tensor& tensor) const {
    if (stream_.executes()) bits[name] = bits_of(tensor);
  }

  Stream& stream_;
  Region region_;
  AttentionCore core_;
  UnitHooks hooks_;
  std::deque<Part> parts_;
  std::vector<MicroBatch> batches_;
  std::optional<Pipeline> pipeline_;
};

// Runs body(rank's own PipelineRank, rank) for all ranks at the same time, in memory as
// large as a planning walk says.
inline void run_pipeline(const PipelineSpec& spec,
                         const std::function<void(PipelineRank&, int)>& body) {
  const int ranks = static_cast<int>(spec.schedule.ranks.size());
  ThreadGroup down(ranks), up(ranks);
  run_ranks(ranks, {&down, &up}, [&](int rank) {
    ThreadCommunicator down_link(down, rank), up_link(up, rank);
    const Pipeline::Links links{down_link, up_link};
    PipelineArenas planned = PipelineArenas::unbounded(peak_in_flight(spec.schedule)[rank]);
    Tally tally;
    Stream planning({}, tally);
    PipelineRank(spec, planning, links, planned).train();

    PipelineArenas arenas = PipelineArenas::like(planned);
    Stream stream;
    PipelineRank mine(spec, stream, links, arenas);
    body(mine, rank);
    EXPECT_EQ(arenas.peaks(), planned.peaks()) << "rank " << rank;
  });
}

}  // namespace trireme::test
