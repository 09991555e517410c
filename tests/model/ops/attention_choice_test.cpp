#include "model/ops/cuda/attention_choice.h"

#include <gtest/gtest.h>

#include "model/base/error.h"

namespace trireme::ops::cuda {
namespace {

// What cuDNN is asked for.
AttentionShape plain() {
  return {.batch = 2, .seq = 1024, .heads = {12, 4, 64}, .scale = 0.125, .documents = false};
}

TEST(AttentionChoice, CudnnIsAskedForWholeSequencesOfSixteenBits) {
  EXPECT_EQ(why_own_attention(AttentionPreference::kFastest, plain(), DType::kBf16), "");
  EXPECT_EQ(why_own_attention(AttentionPreference::kFastest, plain(), DType::kF16), "");
}

TEST(AttentionChoice, OurOwnKernelsTakeEverythingElseAndSayWhy) {
  const auto why = [](const AttentionShape& shape, DType dtype = DType::kBf16,
                      AttentionPreference wish = AttentionPreference::kFastest) {
    return why_own_attention(wish, shape, dtype);
  };
  EXPECT_EQ(why(plain(), DType::kBf16, AttentionPreference::kOwn), "TRIREME_ATTENTION is \"own\"");
  EXPECT_EQ(why(plain(), DType::kF32), "cuDNN does not support float32");
  EXPECT_EQ(why(plain(), DType::kF64), "cuDNN does not support float64");
  AttentionShape shape = plain();
  shape.documents = true;
  EXPECT_EQ(why(shape), "documents are masked");
  shape = plain();
  shape.heads.width = 20;
  EXPECT_EQ(why(shape), "the head width 20 is not a multiple of 8");
  shape = plain();
  shape.seq = 1;
  EXPECT_EQ(why(shape), "sequences of 1 token");
}

TEST(AttentionChoice, AnOpWhoseCallerPromisesNothingMayHaveDocuments) {
  EXPECT_TRUE(AttentionShape{}.documents);
}

TEST(AttentionChoice, ReadsTheWish) {
  for (const char* fastest : {static_cast<const char*>(nullptr), "", "auto"})
    EXPECT_EQ(attention_wish(fastest), AttentionPreference::kFastest);
  EXPECT_EQ(attention_wish("own"), AttentionPreference::kOwn);
  for (const char* wrong : {"cudnn", "Own", "own "})
    EXPECT_THROW(attention_wish(wrong), ConfigError) << wrong;
}

TEST(AttentionChoice, AWorkspaceTakesAnEighthOfTheDeviceAtMost) {
  constexpr std::size_t kDevice = std::size_t{80} << 30;
  EXPECT_EQ(why_too_large(0, kDevice), "");
  EXPECT_EQ(why_too_large(kDevice / 8, kDevice), "");
  EXPECT_EQ(why_too_large(kDevice / 8 + 1, kDevice),
            "cuDNN needs 10737418241 bytes of workspace, more than 1/8 of the device's memory");
}

// Of cuDNN the forward's log-sum-exps by head and the backward's matrix of every head; of our own
// the backward's row sums.
TEST(AttentionChoice, SupposesAWorkspaceWhereThereIsNoDevice) {
  AttentionShape shape = plain();
  const std::int64_t rows = shape.batch * shape.seq * shape.heads.heads;
  EXPECT_EQ(supposed_workspace(shape, DType::kBf16), rows);
  EXPECT_EQ(supposed_backward_workspace(shape, DType::kBf16), rows + rows * shape.seq / 2);
  EXPECT_EQ(supposed_workspace(shape, DType::kF32), 0);
  EXPECT_EQ(supposed_backward_workspace(shape, DType::kF32), rows);
  shape.seq = std::int64_t{1} << 20;
  EXPECT_EQ(supposed_backward_workspace(shape, DType::kBf16),
            shape.batch * shape.seq * shape.heads.heads);
}

}  // namespace
}  // namespace trireme::ops::cuda
