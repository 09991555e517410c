#include "parallel/tensor/tensor_split.h"

#include <gtest/gtest.h>

#include "model/base/error.h"

namespace trireme {
namespace {

ModelConfig model(std::int64_t heads, std::int64_t kv_heads, std::int64_t intermediate) {
  ModelConfig m;
  m.num_attention_heads = heads;
  m.num_key_value_heads = kv_heads;
  m.intermediate_size = intermediate;
  return m;
}

std::string refusal(const ModelConfig& of, std::int64_t ranks) {
  try {
    check_tensor_split(of, ranks);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(TensorSplit, heads_that_do_not_divide_are_named_with_the_nearest_values) {
  EXPECT_EQ(refusal(model(8, 4, 48), 3),
            "parallelism.tensor = 3 and model.num_attention_heads = 8: every rank must get the "
            "same number of heads; nearest possible: parallelism.tensor = 2 or 4, or "
            "model.num_attention_heads = 12");
  EXPECT_EQ(refusal(model(12, 12, 3072), 5),
            "parallelism.tensor = 5 and model.num_attention_heads = 12: every rank must get the "
            "same number of heads; nearest possible: parallelism.tensor = 4 or 6, or "
            "model.num_attention_heads = 60");
  EXPECT_EQ(refusal(model(8, 8, 64), 16),
            "parallelism.tensor = 16 and model.num_attention_heads = 8: every rank must get the "
            "same number of heads; nearest possible: parallelism.tensor = 8, or "
            "model.num_attention_heads = 16");
}

TEST(TensorSplit, key_value_heads_and_the_mlp_are_named_likewise) {
  EXPECT_EQ(refusal(model(12, 4, 48), 6),
            "parallelism.tensor = 6 and model.num_key_value_heads = 4: every rank must get the "
            "same number of key-value heads, or share one with the same number of others; "
            "nearest possible: parallelism.tensor = 4 or 12, or model.num_key_value_heads = 3 "
            "or 6");
  EXPECT_EQ(refusal(model(8, 8, 50), 4),
            "parallelism.tensor = 4 and model.intermediate_size = 50: every rank must get the "
            "same share of the MLP; nearest possible: parallelism.tensor = 2, or "
            "model.intermediate_size = 48 or 52");
}

TEST(TensorSplit, fewer_key_value_heads_than_ranks_are_allowed) {
  for (const std::int64_t ranks : {1, 2, 4, 8}) EXPECT_EQ(refusal(model(8, 2, 64), ranks), "");
  EXPECT_EQ(key_value_replicas(model(8, 2, 64), 1), 1);
  EXPECT_EQ(key_value_replicas(model(8, 2, 64), 2), 1);
  EXPECT_EQ(key_value_replicas(model(8, 2, 64), 8), 4);
}

TEST(TensorSplit, tokens_that_do_not_divide_are_named_with_the_nearest_lengths) {
  check_sequence_split(2, 6, 4);
  try {
    check_sequence_split(2, 7, 4);
    FAIL() << "not noticed";
  } catch (const ConfigError& error) {
    EXPECT_EQ(std::string(error.what()),
              "parallelism.sequence shares out a micro-batch's tokens, but "
              "training.local_batch_size = 2 times training.seq_len = 7 does not divide by "
              "parallelism.tensor = 4; nearest possible: training.seq_len = 6 or 8");
  }
}

}  // namespace
}  // namespace trireme
