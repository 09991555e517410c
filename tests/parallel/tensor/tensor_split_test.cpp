#include "parallel/tensor/partial_gradients.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(TensorSplit, key_value_heads_fewer_than_ranks_are_held_several_times) {
  ModelConfig model;
  model.num_attention_heads = 8;
  model.num_key_value_heads = 2;
  EXPECT_EQ(key_value_replicas(model, 1), 1);
  EXPECT_EQ(key_value_replicas(model, 2), 1);
  EXPECT_EQ(key_value_replicas(model, 4), 2);
  EXPECT_EQ(key_value_replicas(model, 8), 4);
}

}  // namespace
}  // namespace trireme
