// That a step hides no wait for the device, told by the emulator.
#include <gtest/gtest.h>

#include "tests/cuda_emulator/streams.h"
#include "tests/trainer/engine/tiny_engine.h"

namespace trireme {
namespace {

using EngineOnCuda = test::OnDevice;

class Watcher final : public PipelineObserver {
  void begin(Stream&, const Event&) override {}
  void end(Stream&, const Event&) override {}
};

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

TEST_F(EngineOnCuda, queues_its_gradients_in_one_call_from_the_second_step_on) {
  EngineSpec spec = test::spec_of("qwen3");
  spec.job.cuda_graphs = true;
  test::TinyEngine on(spec);
  EXPECT_EQ(no_graph_because(spec, on.alone, test::kDevice), "");
  Watcher watcher;
  for (std::int64_t step = 1; step <= 4; ++step) {
    test::fill(on.engine.batch(), 1, spec.model.vocab_size);
    on.engine.observe(step == 3 ? &watcher : nullptr);
    const std::uint64_t before = emulator::host_calls(), waits = emulator::host_waits();
    on.engine.queue_gradients(120, step);
    const std::uint64_t calls = emulator::host_calls() - before;
    if (step % 2 == 0) {
      EXPECT_EQ(calls, 1u);
    } else {
      EXPECT_GT(calls, 100u);  // not recorded yet, or observed
    }
    if (step > 1) {
      EXPECT_EQ(emulator::host_waits(), waits);
    }
    on.engine.queue_update(1e-3, step);
    on.engine.result();
  }
}

}  // namespace
}  // namespace trireme
