// That a step hides no wait for the device, told by the emulator.
#include <gtest/gtest.h>

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
      on.engine.train(1e-3, step, 120);
      const std::uint64_t after = emulator::host_waits();
      on.engine.evaluate();
      if (step == 1) continue;  // algorithms are chosen by timing them
      EXPECT_EQ(after - before, 1u) << family;
      EXPECT_EQ(emulator::host_waits() - after, 1u) << family;
    }
  }
}

}  // namespace
}  // namespace trireme
