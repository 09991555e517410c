#include "trainer/config/sequence_length.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/config/support.h"
#include "trainer/config/batch_size.h"
#include "trainer/config/notes.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

const Override kYarn{"data.stages",
                     "[{ from_step = 4, seq_len = 64 },"
                     " { from_step = 6, train = [{ path = '/b' }] },"
                     " { from_step = 9, seq_len = 256, rope_scaling = { rope_type = 'yarn',"
                     " factor = 4, original_max_position_embeddings = 64 } }]"};

RunConfig config_with(const std::vector<Override>& more) {
  std::vector<Override> all{{"training.seq_len", "32"}, {"training.global_batch_size", "2"}};
  all.insert(all.end(), more.begin(), more.end());
  return read(kGood, all).config;
}

std::vector<std::int64_t> numbers_of(const RunConfig& config) {
  std::vector<std::int64_t> numbers;
  for (const SequenceLength& length : sequence_lengths(config)) {
    numbers.insert(numbers.end(), {length.from_step, static_cast<std::int64_t>(length.first_sample),
                                   length.seq_len});
  }
  return numbers;
}

TEST(sequence_lengths, last_until_the_next_stage_that_changes_them) {
  EXPECT_THAT(numbers_of(config_with({})), ElementsAre(1, 0, 32));
  const RunConfig config = config_with({kYarn});
  EXPECT_THAT(numbers_of(config), ElementsAre(1, 0, 32, 4, 6, 64, 9, 16, 256));
  EXPECT_EQ(longest_seq_len(config), 256);
  const std::vector<SequenceLength> all = sequence_lengths(config);
  EXPECT_EQ(all[1].rope_scaling, RopeScaling());
  EXPECT_EQ(all[2].rope_scaling.type, RopeScaling::Type::kYarn);
  for (const auto& [sample, seq_len] : {std::pair(0, 32), {5, 32}, {6, 64}, {15, 64}, {16, 256}}) {
    EXPECT_EQ(length_of(all, sample).seq_len, seq_len) << sample;
  }
  EXPECT_EQ(lengths_text(config),
            "sequences: 32 tokens from step 1 on, 64 tokens from step 4 on, 256 tokens from step 9 "
            "on");
}

TEST(sequence_lengths, count_the_tokens_of_steps) {
  const RunConfig config = config_with({kYarn, {"training.rampup_batch_size", "[[1, 1], [5, 2]]"}});
  std::int64_t tokens = 0;
  for (std::int64_t step = 1; step < 14; ++step) {
    EXPECT_EQ(tokens_before_step(config, step), tokens) << step;
    const std::int64_t of_step = (step < 5 ? 1 : 2) * (step < 4 ? 32 : step < 9 ? 64 : 256);
    EXPECT_EQ(step_of_token(config, tokens), step);
    EXPECT_EQ(step_of_token(config, tokens + of_step - 1), step);
    tokens += of_step;
  }
}

TEST(sequence_lengths, decide_how_many_steps_train_on_the_tokens) {
  const auto steps = [](std::int64_t tokens) {
    return total_steps(
        config_with({kYarn, {"training.steps", "0"}, {"training.tokens", std::to_string(tokens)}}));
  };
  // Steps of 64 tokens, of 128 from step 4 on, of 512 from step 9 on.
  EXPECT_EQ(steps(3 * 64), 3);
  EXPECT_EQ(steps(3 * 64 + 1), 4);
  EXPECT_EQ(steps(3 * 64 + 5 * 128), 8);
  EXPECT_EQ(steps(3 * 64 + 5 * 128 + 513), 10);
}

TEST(with_length, is_a_run_of_that_length_and_as_many_steps) {
  const RunConfig config = config_with({kYarn,
                                        {"training.steps", "0"},
                                        {"training.tokens", "1345"},
                                        {"model.max_position_embeddings", "32"}});
  const RunConfig last = with_length(config, sequence_lengths(config)[2]);
  EXPECT_EQ(last.training.seq_len, 256);
  EXPECT_EQ(last.model.rope_scaling.factor, 4);
  EXPECT_EQ(last.model.max_position_embeddings, 256);
  EXPECT_EQ(total_steps(last), total_steps(config));
  EXPECT_EQ(sequence_lengths(last).size(), 1U);
  ASSERT_EQ(last.data.stages.size(), 1U);
  EXPECT_EQ(last.data.stages[0].from_step, 6);
  const RunConfig limited = config_with({kYarn, {"model.max_position_embeddings", "128"}});
  EXPECT_EQ(with_length(limited, sequence_lengths(limited)[2]).model.max_position_embeddings, 128);
}

TEST(sequence_lengths, obey_the_rules_of_a_run) {
  const auto of = [](const char* stages, const std::vector<Override>& more = {}) {
    std::vector<Override> all{{"training.seq_len", "32"}, {"data.stages", stages}};
    all.insert(all.end(), more.begin(), more.end());
    return complaint(kGood, all);
  };
  EXPECT_EQ(of("[{ from_step = 5, seq_len = 64 }]"), "");
  EXPECT_THAT(of("[{ from_step = 5, seq_len = 0 }]"),
              HasSubstr("data.stages[0].seq_len = 0: must be between 1 and"));
  EXPECT_THAT(of("[{ from_step = 5, seq_len = 64 }, { from_step = 9, seq_len = 70 }]",
                 {{"parallelism.context", "4"}}),
              StartsWith("command line: --data.stages: from_step = 9: parallelism.context = 4: "
                         "needs sequences of a multiple of 8 tokens, not 70"));
  EXPECT_THAT(of("[{ from_step = 5, seq_len = 33 }]",
                 {{"parallelism.tensor", "2"}, {"parallelism.sequence", "true"}}),
              HasSubstr("from_step = 5: parallelism.tensor = 2: does not divide the 33 tokens"));
  EXPECT_THAT(of("[{ from_step = 5, seq_len = 2048 }]", {{"model.flavor", "gpt2-124m"}}),
              HasSubstr("from_step = 5: training.seq_len = 2048: longer than the model's learned"));
  EXPECT_THAT(of("[{ from_step = 5, rope_scaling = { rope_type = 'linear', factor = 2 } }]",
                 {{"model.flavor", "gpt2-124m"}}),
              HasSubstr("from_step = 5: rope_scaling changes rotary positions"));
  EXPECT_THAT(of("[{ from_step = 5, rope_scaling = { rope_type = 'yarn', factor = 2 } }]"),
              HasSubstr("from_step = 5: rope_scaling needs original_max_position_embeddings"));
  EXPECT_THAT(of("[{ from_step = 5, rope_scaling = { factor = 2 } }]"),
              HasSubstr("data.stages[0].rope_scaling = { factor = 2 }: needs rope_type"));
  EXPECT_THAT(of("[{ from_step = 5, rope_scaling = { rope_type = 'yarn', factors = 2 } }]"),
              HasSubstr("data.stages[0].rope_scaling.factors = 2: unknown key; did you mean"));
  EXPECT_THAT(of("[{ from_step = 9, seq_len = 64 }, { from_step = 9, seq_len = 32 }]"),
              HasSubstr("from_step = 9: stages must be in ascending order"));
  EXPECT_THAT(of("[{ from_step = 9, seq_len = 64 }]", {{"data.order", "megatron"}}),
              HasSubstr("Megatron-LM's order has no stages"));
}

TEST(config_notes, name_the_stage_that_they_are_about) {
  const RunConfig config = config_with({kYarn, {"model.max_position_embeddings", "128"}});
  EXPECT_THAT(config_notes(config),
              ElementsAre(StartsWith("data.stages: from step 9: model.max_position_embeddings = "
                                     "128 is below training.seq_len = 256")));
}

}  // namespace
}  // namespace trireme
