#include "trainer/engine/inference.h"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <vector>

#include "tests/trainer/engine/tiny_engine.h"

namespace trireme {
namespace {

using test::fill;
using test::spec_of;

using InferenceTest = test::OnDevice;

// With the engine's first weights.
std::unique_ptr<Inference> inference_of(const EngineSpec& spec, std::int64_t micro_batch,
                                        std::int64_t prompt) {
  auto made = std::make_unique<Inference>(Inference::Spec{.model = spec.model,
                                                          .device = test::kDevice,
                                                          .compute = spec.compute,
                                                          .seq_len = spec.training.seq_len,
                                                          .micro_batch = micro_batch,
                                                          .prompt = prompt});
  made->params().initialize(1);
  return made;
}

TEST_F(InferenceTest, tells_each_tokens_loss_and_continues_texts_in_the_memory_planned) {
  for (const char* family : {"gpt2", "qwen3"}) {
    EngineSpec spec = spec_of(family);
    spec.sample_length = 8;
    test::TinyEngine whole(spec);
    Engine& engine = whole.engine;
    const std::int64_t sequences = spec.training.local_batch_size * spec.micro_batches;
    const auto tokens = static_cast<std::size_t>(sequences * spec.training.seq_len);
    const auto model = inference_of(spec, sequences, /*prompt=*/1);
    fill(engine.batch(), 5, spec.model.vocab_size);
    fill(model->batch(), 5, spec.model.vocab_size);
    engine.batch().targets[3] = model->batch().targets[3] = -1;
    const std::vector<double> losses = engine.token_losses(), same = model->token_losses();
    ASSERT_EQ(losses.size(), tokens);
    ASSERT_EQ(same.size(), tokens);
    for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], same[i], 1e-5);
    EXPECT_EQ(losses[3], 0);
    const double sum = std::accumulate(losses.begin(), losses.end(), 0.0);
    EXPECT_NEAR(sum, engine.evaluate(), 1e-9 * sum);

    for (int again = 0; again < 2; ++again) {
      engine.decoder().restart();
      for (const std::int32_t id : {3, 1, 4, 1, 5, 9, 2, 6}) {
        const std::vector<float> logits = engine.decoder().next_logits(id);
        if (again > 0) continue;
        const std::vector<float> others = model->next_logits({&id, 1});
        ASSERT_EQ(logits.size(), others.size());
        for (std::size_t i = 0; i < logits.size(); ++i) EXPECT_NEAR(logits[i], others[i], 1e-5);
      }
      EXPECT_THROW(engine.decoder().next_logits(0), Error);
      train_step(engine, 1e-3, again + 1, 120);
      EXPECT_EQ(whole.arenas.peaks(), whole.plan.memory);
    }
  }
}

TEST_F(InferenceTest, evaluates_and_decodes_what_the_engine_computes) {
  const EngineSpec spec = spec_of("qwen3");
  test::TinyEngine whole(spec);
  Engine& engine = whole.engine;
  const auto model =
      inference_of(spec, spec.training.local_batch_size * spec.micro_batches, /*prompt=*/20);
  fill(engine.batch(), 5, spec.model.vocab_size);
  fill(model->batch(), 5, spec.model.vocab_size);
  EXPECT_NEAR(model->evaluate(), engine.evaluate(), 1e-5 * engine.evaluate());

  // A prompt at once, and token by token through the cache.
  const std::vector<std::int32_t> ids{3, 1, 4, 1, 5, 9, 2, 6};
  const std::vector<float> at_once = model->next_logits(ids);
  const auto one = inference_of(spec, 0, /*prompt=*/1);
  std::vector<float> last;
  for (const std::int32_t id : ids) last = one->next_logits({&id, 1});
  ASSERT_EQ(last.size(), at_once.size());
  for (std::size_t i = 0; i < last.size(); ++i) EXPECT_NEAR(last[i], at_once[i], 1e-5);
}

}  // namespace
}  // namespace trireme
