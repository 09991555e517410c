#include "parallel/pipeline/pipeline.h"

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>
#include <set>

#include "parallel/pipeline/check.h"
#include "parallel/pipeline/registry.h"
#include "parallel/pipeline/schedule_file.h"
#include "tests/parallel/pipeline/pipeline_rank.h"

namespace trireme::test {
namespace {

// All ranks' bits together.
struct Results {
  Bits trained, again, evaluated;
};

Results results_of(const PipelineSpec& spec) {
  Results all;
  std::mutex mutex;
  run_pipeline(spec, [&](PipelineRank& rank, int /*number*/) {
    Bits trained = rank.train(), evaluated = rank.evaluate(), again = rank.train();
    const std::lock_guard guard(mutex);
    all.trained.merge(trained);
    all.evaluated.merge(evaluated);
    all.again.merge(again);
    EXPECT_TRUE(trained.empty() && evaluated.empty() && again.empty())
        << "something is there twice";
  });
  return all;
}

// The same micro-batches through one stage that is the whole model, one after the other.
Results alone(PipelineSpec spec) {
  spec.schedule = one_forward_one_backward({1, spec.schedule.micro_batches});
  const Results results = results_of(spec);
  if (spec.dtype == DType::kF32) {
    for (const auto& [name, bits] : results.trained) {
      const auto* values = reinterpret_cast<const float*>(bits.data());
      const std::size_t count = bits.size() / sizeof(float);
      EXPECT_TRUE(std::all_of(values, values + count, [](float v) { return std::isfinite(v); }) &&
                  std::any_of(values, values + count, [](float v) { return v != 0; }))
          << name;
    }
  }
  return results;
}

void expect_equal(const Bits& found, const Bits& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (const auto& [name, bits] : wanted) EXPECT_TRUE(found.at(name) == bits) << name;
}

struct Layout {
  const char* schedule;
  PipelineShape shape;
};
void PrintTo(const Layout& layout, std::ostream* out) {
  *out << layout.schedule << "_" << layout.shape.ranks << "_" << layout.shape.micro_batches << "_"
       << layout.shape.virtual_stages;
}

class PipelineLayout : public testing::TestWithParam<Layout> {};

TEST_P(PipelineLayout, has_the_bits_of_one_stage_alone) {
  const Layout& layout = GetParam();
  for (const bool gpt2 : {true, false}) {
    const PipelineSpec spec{eight_blocks(gpt2), Recompute::kNone, DType::kF32,
                            make_schedule(layout.schedule, layout.shape)};
    const Results wanted = alone(spec);
    const Results found = results_of(spec);
    expect_equal(found.trained, wanted.trained);
    expect_equal(found.again, wanted.trained);
    expect_equal(found.evaluated, wanted.evaluated);
  }
}

std::vector<Layout> layouts() {
  std::vector<Layout> all;
  for (const NamedSchedule& named : named_schedules()) {
    using Shapes = std::vector<PipelineShape>;
    for (const PipelineShape& shape :
         named.has_virtual_stages ? Shapes{{1, 3, 2}, {2, 6, 2}, {2, 4, 4}, {4, 8, 2}}
                                  : Shapes{{1, 3, 1}, {2, 5, 1}, {3, 7, 1}, {4, 3, 1}, {8, 4, 1}}) {
      all.push_back({named.name, shape});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Schedules, PipelineLayout, testing::ValuesIn(layouts()),
                         [](const auto& chosen) { return testing::PrintToString(chosen.param); });

// Two ranks whose stages form a V: the middle two hand over on one rank, with one
// backward whole and the others by halves.
TEST(Pipeline, runs_a_schedule_whose_stages_stand_on_the_ranks_in_another_way) {
  PipelineSpec spec{eight_blocks(false), Recompute::kNone, DType::kF32,
                    parse_schedule("0F0,0F1,3F0,3I0,3F1,3I1,3W0,0B0,3W1,0B1\n"
                                   "1F0,2F0,1F1,2F1,2B0,1I0,2I1,1I1,1W0,2W1,1W1\n",
                                   "v")};
  ASSERT_EQ(complaint(spec.schedule), "");
  const Results wanted = alone(spec);
  const Results found = results_of(spec);
  expect_equal(found.trained, wanted.trained);
  expect_equal(found.evaluated, wanted.evaluated);
}

TEST(Pipeline, recomputation_and_number_formats_do_not_change_that) {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBf16, DType::kF16}) {
    for (const Recompute recompute : kRecomputeModes) {
      for (const char* name : {"1F1B", "ZBH1"}) {
        const PipelineSpec spec{eight_blocks(false), recompute, dtype, make_schedule(name, {3, 5})};
        expect_equal(results_of(spec).trained, alone(spec).trained);
      }
    }
  }
}

// Writes down what it is told.
class Recorder final : public PipelineObserver {
 public:
  void begin(Stream& /*stream*/, const Event& event) override {
    if (event.what == What::kAction) actions.push_back(event.action);
    if (event.what == What::kAction || event.what == What::kWait) {
      EXPECT_FALSE(busy_) << "works or waits while it does";
      busy_ = true;
    }
    EXPECT_TRUE(open_.insert(key(event)).second) << event.action << " begins twice";
  }
  void end(Stream& /*stream*/, const Event& event) override {
    if (event.what == What::kAction || event.what == What::kWait) busy_ = false;
    EXPECT_EQ(open_.erase(key(event)), 1u) << event.action << " ends unbegun";
    ++ended[event.what];
  }
  bool all_ended() const { return open_.empty(); }
  std::vector<Action> actions;
  std::map<What, int> ended;

 private:
  static std::string key(const Event& event) {
    return say(static_cast<int>(event.what), " ", event.action, " ", event.peer);
  }
  bool busy_ = false;
  std::set<std::string> open_;
};

TEST(Pipeline, an_observer_sees_every_action_and_message) {
  using What = PipelineObserver::What;
  const PipelineSpec spec{eight_blocks(false), Recompute::kNone, DType::kF32,
                          make_schedule("Interleaved1F1B", {2, 4, 2})};
  run_pipeline(spec, [&](PipelineRank& rank, int number) {
    Recorder recorder;
    rank.pipeline().observe(&recorder);
    rank.train();
    rank.pipeline().observe(nullptr);
    EXPECT_EQ(recorder.actions, spec.schedule.ranks[number]);
    EXPECT_TRUE(recorder.all_ended());
    // Of the two stages' messages only the model's ends have none: three of four edges
    // each way for four micro-batches.
    EXPECT_EQ(recorder.ended[What::kSend], 3 * 4);
    EXPECT_EQ(recorder.ended[What::kReceive], 3 * 4);
    EXPECT_EQ(recorder.ended[What::kWait], 2 * 3 * 4);
    rank.train();
    EXPECT_EQ(recorder.ended[What::kSend], 3 * 4) << "told after it went";
  });
}

TEST(Pipeline, a_schedule_that_does_not_fit_the_ranks_is_refused) {
  PipelineSpec spec{eight_blocks(false), Recompute::kNone, DType::kF32,
                    make_schedule("1F1B", {2, 4})};
  std::swap(spec.schedule.ranks[0], spec.schedule.ranks[1]);
  ASSERT_EQ(complaint(spec.schedule), "");
  ThreadGroup group(4);
  ThreadCommunicator link(group, 0);
  PipelineArenas arenas = PipelineArenas::unbounded(2);
  Tally tally;
  Stream planning({}, tally);
  EXPECT_THROW(PipelineRank(spec, planning, {link, link}, arenas), Error);
}

}  // namespace
}  // namespace trireme::test
