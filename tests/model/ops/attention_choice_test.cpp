#include "model/ops/cuda/attention_choice.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "model/base/error.h"

namespace trireme::ops::cuda {
namespace {

// What cuDNN is asked for.
AttentionShape plain() {
  return {.batch = 2, .seq = 1024, .heads = {12, 4, 64}, .scale = 0.125, .masked = false};
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
  shape.masked = true;
  EXPECT_EQ(why(shape), "documents are masked");
  shape.window = shape.seq;
  EXPECT_EQ(why(shape), "documents are masked");
  shape.window = 64;
  EXPECT_EQ(why(shape), "a sliding window");
  shape = plain();
  shape.soft_cap = 50;
  EXPECT_EQ(why(shape), "scores have a soft cap");
  shape = plain();
  shape.heads.width = 20;
  EXPECT_EQ(why(shape), "the head width 20 is not a multiple of 8");
  shape = plain();
  shape.seq = 1;
  EXPECT_EQ(why(shape), "sequences of 1 token");
}

TEST(AttentionChoice, OurKernelsOfHopperGoBeforeCudnnUnlessItIsAskedFor) {
  const auto why = [](AttentionPreference wish) {
    return why_own_attention(wish, plain(), DType::kBf16, /*warpgroups=*/true);
  };
  EXPECT_EQ(why(AttentionPreference::kFastest), "faster than cuDNN here");
  EXPECT_EQ(why(AttentionPreference::kCudnn), "");
}

TEST(AttentionChoice, AnOpWhoseCallerPromisesNothingMayHaveDocuments) {
  EXPECT_TRUE(AttentionShape{}.masked);
}

TEST(AttentionChoice, ReadsTheWish) {
  for (const char* fastest : {static_cast<const char*>(nullptr), "", "auto"})
    EXPECT_EQ(attention_wish(fastest), AttentionPreference::kFastest);
  EXPECT_EQ(attention_wish("own"), AttentionPreference::kOwn);
  EXPECT_EQ(attention_wish("cudnn"), AttentionPreference::kCudnn);
  for (const char* wrong : {"cuDNN", "Own", "own "})
    EXPECT_THROW(attention_wish(wrong), ConfigError) << wrong;
}

TEST(AttentionChoice, AWorkspaceTakesAnEighthOfTheDeviceAtMost) {
  constexpr std::size_t kDevice = std::size_t{80} << 30;
  EXPECT_EQ(why_too_large(0, kDevice), "");
  EXPECT_EQ(why_too_large(kDevice / 8, kDevice), "");
  EXPECT_EQ(why_too_large(kDevice / 8 + 1, kDevice),
            "cuDNN needs 10737418241 bytes of workspace, more than 1/8 of the device's memory");
}

std::size_t matrix_bytes(const AttentionShape& shape) {
  return static_cast<std::size_t>(shape.batch * shape.heads.heads * shape.seq * shape.seq) * 2;
}

TEST(AttentionChoice, ABackwardIsCutUntilItsMatricesFit) {
  constexpr std::size_t kMost = AttentionParts::kMostMatrixBytes;
  struct Case {
    std::int64_t batch, seq;
    Heads heads;
    std::int64_t of_batch, of_heads;
  };
  for (const Case& c : {Case{2, 1024, {12, 4, 64}, 1, 1}, Case{2, 4096, {32, 8, 128}, 2, 1},
                        Case{6, 4096, {12, 12, 64}, 3, 1}, Case{2, 8192, {32, 8, 128}, 2, 4},
                        Case{1, 8192, {28, 28, 128}, 1, 4}}) {
    const AttentionShape shape{
        .batch = c.batch, .seq = c.seq, .heads = c.heads, .scale = 0.125, .masked = false};
    const AttentionParts parts = backward_parts(shape, DType::kBf16);
    EXPECT_EQ(parts.of_batch, c.of_batch) << c.seq;
    EXPECT_EQ(parts.of_heads, c.of_heads) << c.seq;
    EXPECT_LE(matrix_bytes(parts.each), kMost);
    EXPECT_EQ(matrix_bytes(parts.each) * static_cast<std::size_t>(parts.count()),
              matrix_bytes(shape));
    EXPECT_EQ(parts.each.seq, shape.seq);
    EXPECT_EQ(parts.each.heads.width, shape.heads.width);
  }
}

// Gradients of keys are sums over the heads that share them.
TEST(AttentionChoice, HeadsThatShareKeysStayInOnePart) {
  const AttentionShape shape{
      .batch = 2, .seq = 32768, .heads = {32, 8, 128}, .scale = 0.125, .masked = false};
  const AttentionParts parts = backward_parts(shape, DType::kBf16);
  EXPECT_EQ(parts.each.batch, 1);
  EXPECT_EQ(parts.each.heads.heads, 4);
  EXPECT_EQ(parts.each.heads.kv_heads, 1);
  EXPECT_EQ(parts.count(), 16);
  std::vector<std::array<std::int64_t, 3>> starts;
  for (std::int64_t part = 0; part < parts.count(); ++part) {
    const AttentionParts::Start at = parts.start(part);
    EXPECT_EQ(at.head, 4 * at.kv_head);
    starts.push_back({at.entry, at.head, at.kv_head});
  }
  EXPECT_EQ(starts.front(), (std::array<std::int64_t, 3>{0, 0, 0}));
  EXPECT_EQ(starts[9], (std::array<std::int64_t, 3>{1, 4, 1}));
  EXPECT_EQ(starts.back(), (std::array<std::int64_t, 3>{1, 28, 7}));
}

TEST(AttentionChoice, ARefusalIsSaidWithItsShapeReasonAndCost) {
  EXPECT_EQ(
      refusal_warning(plain(), DType::kBf16, "cudnnCreate: no device"),
      "cuDNN cannot compute attention for 2 x 1024 tokens, 12 heads, 4 key-value heads, head_dim "
      "64, bfloat16: cudnnCreate: no device; using trireme's kernels, which take about 2 to 3 "
      "times as long");
}

// Of cuDNN the forward's log-sum-exps by head and the backward's matrix of every head; of our own
// the forward's counter and the backward's row sums.
TEST(AttentionChoice, SupposesAWorkspaceWhereThereIsNoDevice) {
  AttentionShape shape = plain();
  const std::int64_t rows = shape.batch * shape.seq * shape.heads.heads;
  EXPECT_EQ(supposed_workspace(shape, DType::kBf16), rows);
  EXPECT_EQ(supposed_backward_workspace(shape, DType::kBf16), rows + rows * shape.seq / 2);
  EXPECT_EQ(supposed_workspace(shape, DType::kF32), 1);
  EXPECT_EQ(supposed_backward_workspace(shape, DType::kF32), rows);
  shape.seq = 32768;  // in parts of one group of three heads
  EXPECT_EQ(supposed_backward_workspace(shape, DType::kBf16),
            shape.batch * shape.seq * shape.heads.heads + 3 * shape.seq * shape.seq / 2);
  shape.seq = std::int64_t{1} << 20;
  EXPECT_EQ(supposed_backward_workspace(shape, DType::kBf16),
            shape.batch * shape.seq * shape.heads.heads);
}

}  // namespace
}  // namespace trireme::ops::cuda
