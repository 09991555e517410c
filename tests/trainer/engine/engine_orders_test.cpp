// That what streams do beside each other waits for what it must, told by the emulator.
#include <gtest/gtest.h>

#include <vector>

#include "tests/cuda_emulator/streams.h"
#include "tests/trainer/engine/tiny_engine.h"

namespace trireme {
namespace {

struct EngineOrders : test::OnDevice {
  void TearDown() override { emulator::use_order(0); }
};

std::vector<double> losses(const EngineSpec& spec) {
  test::TinyEngine on(spec);
  std::vector<double> found;
  for (std::int64_t step = 1; step <= 2; ++step) {
    test::fill(on.engine.batch(), static_cast<std::uint64_t>(step), spec.model.vocab_size);
    found.push_back(on.engine.train(1e-2, step, 120).loss);
    found.push_back(on.engine.evaluate());
  }
  found.push_back(static_cast<double>(on.weights()));
  return found;
}

TEST_F(EngineOrders, offloading_computes_the_same_in_every_order_that_events_allow) {
  for (const char* schedule : {"GPipe"}) {
    EngineSpec spec = test::spec_of("qwen3");
    spec.model.num_hidden_layers = 5;
    spec.compute = DType::kBf16;
    spec.seq_len = 8;
    spec.schedule = schedule;
    emulator::use_order(0);
    const std::vector<double> expected = losses(spec);
    spec.offload_activations = spec.offload_optimizer = true;
    for (std::uint64_t order = 0; order <= 2; ++order) {
      SCOPED_TRACE(say(schedule, ", order ", order));
      emulator::use_order(order);
      EXPECT_EQ(losses(spec), expected);
    }
  }
}

TEST_F(EngineOrders, offloading_hides_no_wait_in_a_step) {
  for (const char* schedule : {"ZBH1"}) {
    EngineSpec spec = test::spec_of("qwen3");
    spec.model.num_hidden_layers = 5;
    spec.compute = DType::kBf16;
    spec.seq_len = 8;
    spec.schedule = schedule;
    spec.offload_activations = spec.offload_optimizer = true;
    test::TinyEngine on(spec);
    for (std::int64_t step = 1; step <= 3; ++step) {
      test::fill(on.engine.batch(), 1, spec.model.vocab_size);
      const std::uint64_t before = emulator::host_waits();
      on.engine.train(1e-3, step, 120);
      const std::uint64_t after = emulator::host_waits();
      on.engine.evaluate();
      if (step == 1) continue;  // algorithms are chosen by timing them
      EXPECT_EQ(after - before, 1u) << schedule;
      EXPECT_EQ(emulator::host_waits() - after, 1u) << schedule;
    }
  }
}

}  // namespace
}  // namespace trireme
