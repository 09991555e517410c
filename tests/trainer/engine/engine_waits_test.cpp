// That a step hides no wait for the device, told by the emulator.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "tests/cuda_emulator/include/nvtx3/nvToolsExt.h"
#include "tests/cuda_emulator/streams.h"
#include "tests/trainer/engine/tiny_engine.h"

namespace trireme {
namespace {

using EngineOnCuda = test::OnDevice;

TEST_F(EngineOnCuda, waits_once_in_a_step_and_once_in_an_evaluation) {
  for (const char* family : {"gpt2", "qwen3"}) {
    EngineSpec spec = test::spec_of(family);
    spec.compute = DType::kBf16;
    test::TinyEngine on(spec);
    for (std::int64_t step = 1; step <= 3; ++step) {
      test::fill(on.engine.batch(), 1, spec.model.vocab_size);
      const std::uint64_t before = emulator::host_waits();
      train_step(on.engine, 1e-3, step, 120);
      const std::uint64_t after = emulator::host_waits();
      on.engine.evaluate();
      if (step == 1) continue;  // algorithms are chosen by timing them
      EXPECT_EQ(after - before, 1u) << family;
      EXPECT_EQ(emulator::host_waits() - after, 1u) << family;
    }
  }
}

TEST_F(EngineOnCuda, tells_a_profiler_phases_micro_batches_and_layers) {
  EngineSpec spec = test::spec_of("qwen3");
  spec.model.num_hidden_layers = 2;
  spec.micro_batches = 2;
  test::TinyEngine on(spec);
  test::fill(on.engine.batch(), 1, spec.model.vocab_size);
  std::string ranges;
  emulator::ranges = &ranges;
  train_step(on.engine, 1e-3, 1, 120);
  emulator::ranges = nullptr;
  const auto micro_batch = [](const std::string& m) {
    return "forward " + m + "(embedding()layer 0()layer 1()head())backward " + m +
           "(head()layer 1()layer 0()embedding())";
  };
  EXPECT_EQ(ranges, micro_batch("0") + micro_batch("1") + "reduce gradients()optimizer()publish()");
}

// How many calls queue the gradients of each step; from the second on they wait for nothing.
std::vector<std::uint64_t> calls_of(test::TinyEngine& on, std::int64_t steps) {
  std::vector<std::uint64_t> calls;
  for (std::int64_t step = 1; step <= steps; ++step) {
    test::fill(on.engine.batch(), 1, on.engine.spec().model.vocab_size);
    const std::uint64_t before = emulator::host_calls(), waits = emulator::host_waits();
    on.engine.queue_gradients(120, step);
    calls.push_back(emulator::host_calls() - before);
    if (step > 1) {
      EXPECT_EQ(emulator::host_waits(), waits);
    }
    on.engine.queue_update(1e-3, step);
    on.engine.result();
  }
  return calls;
}

TEST_F(EngineOnCuda, queues_a_micro_batch_in_few_calls_from_the_second_step_on) {
  EngineSpec spec = test::spec_of("qwen3");
  spec.job.cuda_graphs = true;
  spec.micro_batches = 4;
  test::TinyEngine on(spec);
  EXPECT_EQ(no_graph_because(spec, on.alone, test::kDevice), "");
  const std::uint64_t made = emulator::instantiated_graphs();
  const std::vector<std::uint64_t> calls = calls_of(on, 3);
  EXPECT_GT(calls[0], 200u);
  // Of a micro-batch: 4 arrays of its inputs, forward, loss and backward.
  EXPECT_LT(calls[1], 4 * 7 + 8u);
  EXPECT_EQ(calls[2], calls[1]);
  // Forward and backward of the first and of the later micro-batches.
  EXPECT_EQ(emulator::instantiated_graphs() - made, 4u);
}

TEST_F(EngineOnCuda, launches_plainly_when_a_graph_cannot_be_made) {
  EngineSpec spec = test::spec_of("qwen3");
  const auto weights_with = [&](bool graphs, std::uint64_t allowed) {
    spec.job.cuda_graphs = graphs;
    test::TinyEngine on(spec);
    emulator::allow_graphs(allowed);
    const std::vector<std::uint64_t> calls = calls_of(on, 3);
    emulator::allow_graphs(std::numeric_limits<std::uint64_t>::max());
    EXPECT_GT(calls[2], 50u);
    return on.weights();
  };
  const std::uint64_t expected = weights_with(false, 0);
  for (const std::uint64_t allowed : {0u, 1u, 3u}) {  // the first, or one of a later kind
    testing::internal::CaptureStdout();
    EXPECT_EQ(weights_with(true, allowed), expected) << allowed;
    const std::string said = testing::internal::GetCapturedStdout();
    EXPECT_NE(said.find("job.cuda_graphs: all micro-batches are launched without a graph"),
              std::string::npos)
        << said;
    EXPECT_EQ(said.find("job.cuda_graphs"), said.rfind("job.cuda_graphs"));
  }
}

}  // namespace
}  // namespace trireme
