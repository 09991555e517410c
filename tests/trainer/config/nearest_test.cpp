#include "trainer/config/hints.h"

#include <gtest/gtest.h>

#include <vector>

namespace trireme {
namespace {

TEST(nearest, counts_edits) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("stpes", "steps"), 1u) << "a swap is one slip";
  EXPECT_EQ(edit_distance("steps", "step"), 1u);
}

TEST(nearest, finds_the_word_that_was_meant) {
  const std::vector<std::string> words{"steps", "tokens", "seq_len", "lr"};
  EXPECT_EQ(nearest("stpes", words), "steps");
  EXPECT_EQ(nearest("token", words), "tokens");
  EXPECT_EQ(nearest("seqlen", words), "seq_len");
}

TEST(nearest, a_value_may_go_by_its_name_elsewhere) {
  const std::vector<std::string> dtypes{"float32", "bfloat16", "float16", "float8"};
  EXPECT_EQ(nearest_value("fp16", dtypes), "float16");
  EXPECT_EQ(nearest_value("BF16", dtypes), "bfloat16");
  EXPECT_EQ(nearest_value("Float32", dtypes), "float32");
  EXPECT_EQ(nearest_value("flaot8", dtypes), "float8");
  const std::vector<std::string> devices{"auto", "cpu", "cuda"};
  EXPECT_EQ(nearest_value("gpu", devices), "cuda");
}

TEST(nearest, stays_silent_rather_than_guess_wildly) {
  const std::vector<std::string> words{"steps", "lr"};
  EXPECT_EQ(nearest("learning_rate", words), "");
  EXPECT_EQ(nearest("xy", words), "");
  EXPECT_EQ(nearest(std::string(100000, 'a'), words), "");
}

}  // namespace
}  // namespace trireme
