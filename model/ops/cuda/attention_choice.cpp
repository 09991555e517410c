#include "model/ops/cuda/attention_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "model/base/error.h"

namespace trireme::ops::cuda {
namespace {

constexpr std::int64_t kWidthUnit = 8;  // elements: 16 bytes
// Of attention_cached: two per multiprocessor; a split's keys at least; threads of a block.
constexpr std::int64_t kCachedBlocks = 264, kLeastKeys = 128, kMostCachedSplits = 256;
constexpr std::size_t kMostOfDevice = 8;
constexpr std::size_t kSupposedDeviceBytes = std::size_t{80} << 30;

// Number of log-sum-exps.
std::int64_t rows_of(const AttentionShape& shape) {
  return shape.batch * shape.seq * shape.heads.heads;
}

// Of dP.
std::size_t matrix_bytes(const AttentionShape& shape, DType dtype) {
  return static_cast<std::size_t>(rows_of(shape) * shape.seq) * size_of(dtype);
}

// The least divisor of `whole` that is at least `ratio`.
std::int64_t divisor_from(std::int64_t whole, std::size_t ratio) {
  auto divisor = std::min(whole, static_cast<std::int64_t>(ratio));
  while (whole % divisor != 0) ++divisor;
  return divisor;
}

}  // namespace

AttentionPreference attention_wish(const char* value) {
  const std::string_view asked = value ? value : "";
  if (asked.empty() || asked == "auto") return AttentionPreference::kFastest;
  if (asked == "own") return AttentionPreference::kOwn;
  if (asked == "cudnn") return AttentionPreference::kCudnn;
  throw ConfigError(say("TRIREME_ATTENTION = \"", asked, "\": \"auto\", \"own\" or \"cudnn\""));
}

std::string why_own_attention(AttentionPreference wish, const AttentionShape& shape, DType dtype,
                              bool warpgroups) {
  if (wish == AttentionPreference::kOwn) return "TRIREME_ATTENTION is \"own\"";
  if (size_of(dtype) != 2) return fmt::format("cuDNN does not support {}", name_of(dtype));
  if (shape.soft_cap > 0) return "scores have a soft cap";
  if (shape.dropout) return "dropout";
  if (shape.window > 0 && shape.window < shape.seq) return "a sliding window";
  if (shape.masked) return "documents are masked";
  if (shape.heads.width % kWidthUnit != 0) {
    return fmt::format("the head width {} is not a multiple of {}", shape.heads.width, kWidthUnit);
  }
  if (shape.seq == 1) return "sequences of 1 token";
  // An H200: 1.1 times as fast forward, 1.2 to 1.4 times backward (KERNELS.md).
  if (warpgroups && wish == AttentionPreference::kFastest) return "faster than cuDNN here";
  return "";
}

AttentionParts::Start AttentionParts::start(std::int64_t part) const {
  const std::int64_t of_entry = part % of_heads;
  return {part / of_heads * each.batch, of_entry * each.heads.heads,
          of_entry * each.heads.kv_heads};
}

AttentionParts backward_parts(const AttentionShape& shape, DType dtype) {
  AttentionParts parts{.each = shape};
  const auto times_too_large = [&] {
    constexpr std::size_t kMost = AttentionParts::kMostMatrixBytes;
    return std::max<std::size_t>((matrix_bytes(parts.each, dtype) + kMost - 1) / kMost, 1);
  };
  parts.of_batch = divisor_from(shape.batch, times_too_large());
  parts.each.batch /= parts.of_batch;
  parts.of_heads = divisor_from(shape.heads.kv_heads, times_too_large());
  parts.each.heads.heads /= parts.of_heads;
  parts.each.heads.kv_heads /= parts.of_heads;
  return parts;
}

std::string refusal_warning(const AttentionShape& shape, DType dtype, const std::string& reason) {
  return fmt::format(
      "cuDNN cannot compute attention for {} x {} tokens, {} heads, {} key-value heads, head_dim "
      "{}, "
      "{}: {}; using trireme's kernels, which take about 2 to 3 times as long",
      shape.batch, shape.seq, shape.heads.heads, shape.heads.kv_heads, shape.heads.width,
      name_of(dtype), reason);
}

std::string why_too_large(std::size_t workspace_bytes, std::size_t device_bytes) {
  if (workspace_bytes <= device_bytes / kMostOfDevice) return "";
  return fmt::format("cuDNN needs {} bytes of workspace, more than 1/{} of the device's memory",
                     workspace_bytes, kMostOfDevice);
}

bool supposes_own(AttentionPass pass, const AttentionShape& shape, DType dtype) {
  if (!why_own_attention(AttentionPreference::kFastest, shape, dtype).empty()) return true;
  const std::size_t matrices = matrix_bytes(backward_parts(shape, dtype).each, dtype);
  return pass == AttentionPass::kBackward && !why_too_large(matrices, kSupposedDeviceBytes).empty();
}

std::int64_t cached_splits(std::int64_t tokens, std::int64_t keys, const Heads& heads) {
  const std::int64_t blocks = std::max<std::int64_t>(tokens * heads.kv_heads, 1);
  const std::int64_t most = std::min(kMostCachedSplits, (keys + kLeastKeys - 1) / kLeastKeys);
  return std::clamp<std::int64_t>(kCachedBlocks / blocks, 1, std::max<std::int64_t>(most, 1));
}

std::int64_t cached_workspace(const Heads& heads) {
  return kCachedBlocks / heads.kv_heads * heads.heads * (heads.width + 2);
}

std::int64_t supposed_workspace(const AttentionShape& shape, DType dtype) {
  return supposes_own(AttentionPass::kForward, shape, dtype) ? kOwnWorkspace : rows_of(shape);
}

std::int64_t supposed_backward_workspace(const AttentionShape& shape, DType dtype) {
  if (supposes_own(AttentionPass::kBackward, shape, dtype)) return rows_of(shape);
  const std::size_t matrices = matrix_bytes(backward_parts(shape, dtype).each, dtype);
  return rows_of(shape) + static_cast<std::int64_t>(matrices / sizeof(float));
}

std::int64_t part_workspace(const AttentionShape& shape) {
  return 2 * shape.batch * shape.seq;
}

std::int64_t part_backward_workspace(const AttentionShape& shape) {
  return part_workspace(shape) + rows_of(shape);
}

}  // namespace trireme::ops::cuda
