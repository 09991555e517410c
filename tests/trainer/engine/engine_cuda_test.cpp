// What an engine on a CUDA device computes, beside one on the CPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "model/device/copy.h"
#include "tests/trainer/engine/tiny_engine.h"

namespace trireme {
namespace {

using test::fill;
using test::float8_spec_of;
using test::kDevice;
using test::spec_of;
using test::TinyEngine;

// Without the padding of the vocabulary, which depends on the device.
std::vector<float> gradients_of(TinyEngine& on) {
  std::vector<float> values;
  for (const Weight& weight : on.engine.model().params().weights()) {
    std::int64_t count = 0;
    for (const Param& part : weight.parts) count += part.box.extent.count();
    const Tensor held = weight.grad.slice(0, count);
    const std::size_t first = values.size();
    values.resize(first + static_cast<std::size_t>(count));
    copy_bytes(on.stream, reinterpret_cast<std::byte*>(values.data() + first), held.data,
               held.bytes());
    on.stream.synchronize();
  }
  return values;
}

double root_of_squares(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(sum);
}

using EngineOnCuda = test::OnDevice;

TEST_F(EngineOnCuda, computes_the_loss_and_gradients_of_the_cpu) {
  for (const char* family : {"gpt2", "qwen3"}) {
    for (const Recompute how : kRecomputeModes) {
      EngineSpec spec = spec_of(family);
      spec.activation_checkpoint.mode = how;
      TinyEngine here(spec, Device{}), there(spec, kDevice);
      for (TinyEngine* on : {&here, &there}) fill(on->engine.batch(), 7, spec.model.vocab_size);
      const double loss = compute_gradients(here.engine, 120);
      // A few roundings of float32 in sums of a few hundred terms.
      EXPECT_NEAR(compute_gradients(there.engine, 120), loss, 1e-5 * loss) << family;
      std::vector<float> expected = gradients_of(here);
      const std::vector<float> found = gradients_of(there);
      const double norm = root_of_squares(expected);
      ASSERT_EQ(found.size(), expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) expected[i] -= found[i];
      EXPECT_LT(root_of_squares(expected), 1e-5 * norm) << family;
    }
  }
}

// With more tokens than an MLP that is recomputed has at a time.
TEST_F(EngineOnCuda, computes_and_replays_chunks) {
  for (const char* family : {"gpt2", "gemma3_text"}) {
    EngineSpec spec = spec_of(family);
    spec.model = test::tiny_model(
        family, {.hidden = 16, .mlp = 32, .layers = 1, .heads = 2, .kv_heads = 1, .positions = 64});
    spec.activation_checkpoint.mode = Recompute::kFull;
    spec.training.seq_len = 64;
    spec.training.local_batch_size = 130;
    spec.micro_batches = 1;
    const auto tokens = spec.training.local_batch_size * spec.training.seq_len;
    ASSERT_LT(Mlp::chunk_rows(kDevice, tokens, 1), tokens);
    TinyEngine here(spec, Device{});
    spec.job.cuda_graphs = true;
    TinyEngine there(spec, kDevice);
    for (TinyEngine* on : {&here, &there}) fill(on->engine.batch(), 7, spec.model.vocab_size);
    const double expected_loss = compute_gradients(here.engine, tokens);
    const std::vector<float> expected = gradients_of(here);
    // Launched plainly, captured, replayed.
    const double loss = compute_gradients(there.engine, tokens);
    const std::vector<float> found = gradients_of(there);
    for (int again = 0; again < 2; ++again) {
      EXPECT_EQ(compute_gradients(there.engine, tokens), loss) << family;
      EXPECT_EQ(gradients_of(there), found) << family;
    }
    EXPECT_NEAR(loss, expected_loss, 1e-5 * expected_loss) << family;
    ASSERT_EQ(found.size(), expected.size());
    std::vector<float> difference = found;
    for (std::size_t i = 0; i < found.size(); ++i) difference[i] -= expected[i];
    EXPECT_LT(root_of_squares(difference), 1e-5 * root_of_squares(expected)) << family;
    apply_update(there.engine, 1e-3, 1);
    EXPECT_EQ(there.arenas.peaks(), there.plan.memory);
  }
}

TEST_F(EngineOnCuda, trains_and_evaluates_as_the_cpu_does) {
  for (const char* family : {"gpt2", "qwen3"}) {
    for (const DType compute : {DType::kF32, DType::kBf16}) {
      EngineSpec spec = spec_of(family);
      spec.compute = compute;
      TinyEngine here(spec, Device{}), there(spec, kDevice);
      // bfloat16 keeps eight bits, and each device rounds to them at its own places.
      const double allowed = compute == DType::kF32 ? 1e-4 : 2e-2;
      // AdamW moves weights by the rate however small their gradients are: signs that rounding
      // to bfloat16 has turned show in later steps.
      const std::int64_t steps = compute == DType::kF32 ? 4 : 2;
      for (std::int64_t step = 1; step <= steps; ++step) {
        for (TinyEngine* on : {&here, &there}) {
          fill(on->engine.batch(), static_cast<std::uint64_t>(step), spec.model.vocab_size);
        }
        const Engine::StepResult expected = train_step(here.engine, 1e-2, step, 120);
        const Engine::StepResult found = train_step(there.engine, 1e-2, step, 120);
        SCOPED_TRACE(say(family, " in ", name_of(compute), ", step ", step));
        EXPECT_NEAR(found.loss, expected.loss, allowed * expected.loss);
        EXPECT_NEAR(found.grad_norm, expected.grad_norm, allowed * expected.grad_norm);
        const double evaluated = here.engine.evaluate();
        EXPECT_NEAR(there.engine.evaluate(), evaluated, allowed * evaluated);
      }
    }
  }
}

TEST_F(EngineOnCuda, trains_in_float8_as_the_cpu_does) {
  if (const std::string reason = test::why_no_float8(); !reason.empty()) GTEST_SKIP() << reason;
  for (const char* family : {"gpt2", "qwen3"}) {
    const EngineSpec spec = float8_spec_of(family);
    TinyEngine here(spec, Device{}), there(spec, kDevice);
    for (std::int64_t step = 1; step <= 2; ++step) {
      for (TinyEngine* on : {&here, &there}) {
        fill(on->engine.batch(), static_cast<std::uint64_t>(step), spec.model.vocab_size);
      }
      SCOPED_TRACE(say(family, ", step ", step));
      const double loss = compute_gradients(here.engine, 160, step);
      // What bfloat16 rounds otherwise on each device may turn the rounding to float8.
      EXPECT_NEAR(compute_gradients(there.engine, 160, step), loss, 0.02 * loss);
      std::vector<float> expected = gradients_of(here);
      const std::vector<float> found = gradients_of(there);
      const double norm = root_of_squares(expected);
      for (std::size_t i = 0; i < found.size(); ++i) expected[i] -= found[i];
      EXPECT_LT(root_of_squares(expected), 0.05 * norm);
      EXPECT_GT(norm, 0);
      apply_update(here.engine, 1e-3, step);
      apply_update(there.engine, 1e-3, step);
      const double evaluated = here.engine.evaluate();
      EXPECT_NEAR(there.engine.evaluate(), evaluated, 0.02 * evaluated);
    }
    EXPECT_EQ(there.arenas.peaks(), there.plan.memory);
  }
}

// A record of what an engine computes in steps of different sizes and rates, evaluations between.
std::vector<double> course_of(const EngineSpec& spec) {
  TinyEngine on(spec);
  std::vector<double> course;
  for (std::int64_t step = 1; step <= 5; ++step) {
    fill(on.engine.batch(), static_cast<std::uint64_t>(step), spec.model.vocab_size);
    if (step == 4) std::fill_n(on.engine.batch().targets.begin(), 30, -1);
    const double limit = step == 3 ? 1e-9 : Engine::kNoLimit;  // nothing changes
    on.engine.queue_gradients(step == 4 ? 90 : 120, step);
    on.engine.queue_update(1e-2 / static_cast<double>(step), step, limit);
    const Engine::StepResult result = on.engine.result();
    EXPECT_EQ(result.applied, step != 3);
    course.insert(course.end(), {result.loss, result.grad_norm});
    if (step % 2 == 0) course.push_back(on.engine.evaluate());
  }
  for (const float gradient : gradients_of(on)) course.push_back(static_cast<double>(gradient));
  course.push_back(static_cast<double>(on.weights() >> 11));
  return course;
}

TEST_F(EngineOnCuda, computes_the_same_bits_when_its_gradients_are_replayed) {
  EngineSpec plain = spec_of("gpt2"), other = spec_of("qwen3");
  other.compute = DType::kBf16;
  other.activation_checkpoint.mode = Recompute::kFull;
  other.job.reproducible = true;
  std::vector<EngineSpec> specs{plain, other};
  if (test::why_no_float8().empty()) {
    specs.push_back(float8_spec_of("qwen3"));
    specs.back().activation_checkpoint.mode = Recompute::kSelective;
  }
  for (EngineSpec spec : specs) {
    const std::vector<double> expected = course_of(spec);
    spec.job.cuda_graphs = true;
    EXPECT_EQ(course_of(spec), expected) << spec.model.model_type;
  }
}

TEST_F(EngineOnCuda, continues_with_the_same_bits_from_what_the_host_keeps) {
  EngineSpec spec = spec_of("qwen3");
  spec.compute = DType::kBf16;
  TinyEngine first(spec);
  const auto train = [&](TinyEngine& on, std::int64_t step) {
    fill(on.engine.batch(), static_cast<std::uint64_t>(step), spec.model.vocab_size);
    return train_step(on.engine, 1e-2, step, 120).loss;
  };
  train(first, 1);
  const HostState& kept = first.engine.host_state();
  kept.download(first.stream);
  TinyEngine second(spec);
  const HostState& loaded = second.engine.host_state();
  const std::size_t bytes = kept.masters().host().bytes();
  ASSERT_NE(kept.masters().host().data, first.engine.model().params().masters().data);
  const auto carry = [](const HostMirror& to, const HostMirror& from) {
    std::memcpy(to.host().data, from.host().data, from.host().bytes());
  };
  carry(loaded.masters(), kept.masters());
  for (std::size_t i = 0; i < first.engine.model().optimizer().states().size(); ++i) {
    carry(loaded.state(i), kept.state(i));
  }
  loaded.upload(second.stream);
  second.engine.model().publish_masters(second.engine.stream());
  EXPECT_EQ(train(second, 2), train(first, 2));
  EXPECT_EQ(second.weights(), first.weights());
  EXPECT_EQ(std::memcmp(loaded.masters().host().data, kept.masters().host().data, bytes), 0);
}

}  // namespace
}  // namespace trireme
