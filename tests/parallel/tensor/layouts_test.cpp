// A model shared out over ranks computes what one rank alone does.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "model/device/cpu/threads.h"
#include "model/ops/cpu/gemm_engine.h"
#include "model/ops/optimizer.h"
#include "tests/parallel/tensor/rank_stage.h"

namespace trireme::test {
namespace {

// What a rank has after a step.
struct Outcome {
  std::vector<double> losses;
  HeldByName gradients;
  double squares = 0;  // of the gradients it counts
  bool plan_held = false;
  std::vector<double> evaluated;  // the losses by forward alone
};

// Rank threads compute with one thread each, and always with the same library.
void compute_with_one_thread() {
  cpu::use_threads(1);
  ops::cpu::GemmEngine::instance().fix(ops::cpu::GemmLibrary::kOpenBlas);
}

double counted_squares(RankStage& stage) {
  Stream stream;
  double total = 0;
  stage.each_param([&](const Param& param) {
    if (!param.is_primary_replica()) return;
    const std::int64_t chunks = (param.grad.count() + ops::kNormChunk - 1) / ops::kNormChunk;
    Arena room(static_cast<std::size_t>(chunks) * Arena::kAlignment);
    const Tensor squares = room.take({chunks}, DType::kF64);
    ops::add_chunk_squares(stream, squares, param.grad);
    for (std::int64_t i = 0; i < chunks; ++i) total += squares.as<double>()[i];
  });
  return total;
}

Outcome trained(const StageSpec& spec, Region& region, const std::vector<Communicator*>& groups) {
  Tally tally;
  Stream planning({}, tally);
  StageArenas endless = StageArenas::unbounded();
  RankStage(spec, planning, region, groups, endless).step();

  Stream stream;
  StageArenas arenas = StageArenas::of(endless.peaks());
  RankStage stage(spec, stream, region, groups, arenas);
  stage.fill_parameters();
  Outcome outcome{stage.step(), stage.gradients(), counted_squares(stage), false, {}};
  outcome.evaluated = stage.evaluate();
  outcome.plan_held = stage.peaks() == endless.peaks();
  return outcome;
}

Outcome alone(const StageSpec& spec) {
  Region region;
  return trained(spec, region, {});
}

std::vector<Outcome> shared_out(const StageSpec& spec, int ranks, bool sequence) {
  TensorGroups groups(spec.model, ranks);
  std::vector<Outcome> outcomes(ranks);
  run_ranks(ranks, groups.groups(), [&](int rank) {
    cpu::use_threads(1);
    ThreadCommunicator tensor = groups.tensor(rank), sharers = groups.sharers(rank);
    std::unique_ptr<Region> region;
    if (sequence) {
      region = std::make_unique<SequenceRegion>(tensor);
    } else {
      region = std::make_unique<TensorRegion>(tensor);
    }
    outcomes[rank] = trained(spec, *region, {&tensor, &sharers});
  });
  return outcomes;
}

// Calls visit(place in the box, place in the logical tensor) for every element of a box.
template <class Visit>
void each_element(const Box& box, const Box& logical, const Visit& visit) {
  const int last = box.from.rank() - 1;
  const std::int64_t width = box.extent[last];
  for (std::int64_t i = 0; i < box.extent.count(); ++i) {
    const std::int64_t row = last == 0 ? 0 : box.from[0] + i / width;
    visit(static_cast<std::size_t>(i),
          static_cast<std::size_t>(row * logical.extent[last] + box.from[last] + i % width));
  }
}

double largest(const std::vector<double>& values) {
  double most = 0;
  for (const double value : values) most = std::max(most, std::abs(value));
  return most;
}

// A shift of all keys alike shifts all scores of a query alike, which the softmax does
// not see: without rotation that gradient is rounding, to be held against its neighbour's.
std::string scale_from(const std::string& name, const ModelConfig& model) {
  if (model.position == PositionKind::kRotary || !name.ends_with(".k.bias")) return name;
  return name.substr(0, name.size() - 6) + "q.bias";
}

void expect_same_gradients(const std::vector<Outcome>& ranks, const Outcome& one,
                           const ModelConfig& model, double tolerance) {
  for (const auto& logical : one.gradients) {
    const std::string& name = logical.first;
    const Held& expected = logical.second;
    std::vector<int> counted(expected.values.size());
    double worst = 0;
    for (const Outcome& rank : ranks) {
      const Held& held = rank.gradients.at(name);
      each_element(held.box, expected.box, [&](std::size_t here, std::size_t there) {
        worst = std::max(worst, std::abs(held.values[here] - expected.values[there]));
        counted[there] += held.counted;
      });
    }
    const double scale = largest(one.gradients.at(scale_from(name, model)).values);
    EXPECT_GT(scale, 0) << name;
    EXPECT_LE(worst, tolerance * scale) << name;
    EXPECT_TRUE(std::all_of(counted.begin(), counted.end(), [](int n) { return n == 1; }))
        << name << " is not counted exactly once";
  }
}

void expect_same_losses(const std::vector<Outcome>& ranks, const Outcome& one, double tolerance) {
  const auto total = [](const Outcome& outcome) {
    double sum = 0;
    for (const double loss : outcome.losses) sum += loss;
    return sum;
  };
  for (const Outcome& rank : ranks) {
    EXPECT_NEAR(total(rank), total(one), tolerance * total(one));
    EXPECT_EQ(rank.losses, ranks.front().losses) << "ranks do not agree on the loss";
    EXPECT_EQ(rank.losses, rank.evaluated) << "forward alone gives another loss";
  }
}

class TensorLayout : public testing::TestWithParam<std::tuple<Family, int, bool>> {};

TEST_P(TensorLayout, has_the_loss_and_every_gradient_of_one_rank) {
  const auto [family, ranks, sequence] = GetParam();
  compute_with_one_thread();
  for (const bool tied : {false, true}) {
    for (const DType dtype : {DType::kF32, DType::kF64}) {
      const bool exact = dtype == DType::kF64;
      StageSpec spec{small_model(family, tied), Recompute::kNone, dtype};
      const Outcome one = alone(spec);
      for (const Recompute how : kRecomputeModes) {
        SCOPED_TRACE(say(tied ? "tied, " : "untied, ", name_of(dtype), ", recomputing ",
                         static_cast<int>(how)));
        spec.recompute = how;
        const std::vector<Outcome> outcomes = shared_out(spec, ranks, sequence);
        expect_same_losses(outcomes, one, exact ? 1e-12 : 1e-6);
        expect_same_gradients(outcomes, one, spec.model, exact ? 1e-12 : 1e-5);
        double squares = 0;
        for (const Outcome& rank : outcomes) {
          squares += rank.squares;
          EXPECT_TRUE(rank.plan_held) << "a rank took other memory than planned";
        }
        EXPECT_NEAR(squares, one.squares, one.squares * (exact ? 1e-12 : 1e-5));
      }
    }
  }
}

TEST(TensorLayouts, pass_their_shares_of_the_tokens_from_stage_to_stage) {
  compute_with_one_thread();
  StageSpec spec{small_model(Family::kLlama, false), Recompute::kNone, DType::kF64};
  const Outcome one = alone(spec);
  spec.pipeline = 2;
  for (const bool sequence : {false, true}) {
    const std::vector<Outcome> outcomes = shared_out(spec, 2, sequence);
    expect_same_losses(outcomes, one, 1e-12);
    expect_same_gradients(outcomes, one, spec.model, 1e-12);
  }
}

std::string layout_name(const testing::TestParamInfo<std::tuple<Family, int, bool>>& of) {
  const auto [family, ranks, sequence] = of.param;
  return say(kFamilyNames[static_cast<int>(family)], "_", ranks,
             sequence ? "_sequence" : "_tensor");
}

INSTANTIATE_TEST_SUITE_P(Families, TensorLayout,
                         testing::Combine(testing::Values(Family::kGpt2, Family::kLlama,
                                                          Family::kQwen2, Family::kQwen3,
                                                          Family::kOlmo2, Family::kGemma3),
                                          testing::Values(1, 2, 4), testing::Bool()),
                         layout_name);

TEST(TensorLayouts, begin_with_the_same_bits) {
  for (const Family family : {Family::kGpt2, Family::kLlama, Family::kQwen2, Family::kQwen3,
                              Family::kOlmo2, Family::kGemma3}) {
    const StageSpec spec{small_model(family, false), Recompute::kNone, DType::kF32};
    const auto initial = [&](Region& region, const std::vector<Communicator*>& groups) {
      Stream stream;
      StageArenas arenas = StageArenas::of(std::vector<std::size_t>(6, 1 << 20));
      RankStage stage(spec, stream, region, groups, arenas);
      stage.initialize(3);
      return stage.masters();
    };
    Region region;
    const HeldByName one = initial(region, {});
    for (const int ranks : {2, 4}) {
      TensorGroups groups(spec.model, ranks);
      for (int rank = 0; rank < ranks; ++rank) {
        ThreadCommunicator tensor = groups.tensor(rank), sharers = groups.sharers(rank);
        SequenceRegion shared(tensor);
        for (const auto& entry : initial(shared, {&tensor, &sharers})) {
          const std::string& name = entry.first;
          const Held &held = entry.second, &logical = one.at(name);
          each_element(held.box, logical.box, [&](auto here, auto there) {
            EXPECT_EQ(held.values[here], logical.values[there]) << name;
          });
        }
      }
    }
  }
}

TEST(SequenceRegion, keeps_a_share_of_what_stands_between_regions) {
  // Of a block under selective recomputation all is shared out: the input, two
  // sums, what attention and MLP keep.
  const auto kept = [](int ranks, bool sequence) {
    ThreadGroup group(ranks);
    ThreadCommunicator tensor(group, 0);
    std::unique_ptr<Region> region = std::make_unique<TensorRegion>(tensor);
    if (sequence) region = std::make_unique<SequenceRegion>(tensor);
    Tally tally;
    Stream planning({}, tally);
    ModelConfig model = small_model(Family::kGpt2, true);
    model.hidden_size = 1024;
    StageArenas arenas = StageArenas::unbounded();
    RankStage stage({model, Recompute::kSelective, DType::kF32}, planning, *region, {&tensor},
                    arenas);
    stage.step();
    return static_cast<double>(arenas.keep.peak());
  };
  EXPECT_GT(kept(4, false), 0.9 * kept(1, false));
  EXPECT_LT(kept(4, true), 0.3 * kept(1, false));
}

}  // namespace
}  // namespace trireme::test
