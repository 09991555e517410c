#include "model/ops/cuda/attention_choice.h"

#include <fmt/format.h>

#include <string_view>

#include "model/base/error.h"

namespace trireme::ops::cuda {
namespace {

constexpr std::int64_t kWidthUnit = 8;  // elements: 16 bytes
constexpr std::size_t kMostOfDevice = 8;
constexpr std::size_t kSupposedDeviceBytes = std::size_t{80} << 30;

// Number of log-sum-exps.
std::int64_t rows_of(const AttentionShape& shape) {
  return shape.batch * shape.seq * shape.heads.heads;
}

}  // namespace

AttentionPreference attention_wish(const char* value) {
  const std::string_view asked = value ? value : "";
  if (asked.empty() || asked == "auto") return AttentionPreference::kFastest;
  if (asked == "own") return AttentionPreference::kOwn;
  throw ConfigError(say("TRIREME_ATTENTION = \"", asked, "\": \"auto\" or \"own\""));
}

std::string why_own_attention(AttentionPreference wish, const AttentionShape& shape, DType dtype) {
  if (wish == AttentionPreference::kOwn) return "TRIREME_ATTENTION is \"own\"";
  if (size_of(dtype) != 2) return fmt::format("cuDNN does not support {}", name_of(dtype));
  if (shape.documents) return "documents are masked";
  if (shape.heads.width % kWidthUnit != 0) {
    return fmt::format("the head width {} is not a multiple of {}", shape.heads.width, kWidthUnit);
  }
  if (shape.seq == 1) return "sequences of 1 token";
  return "";
}

std::string why_too_large(std::size_t workspace_bytes, std::size_t device_bytes) {
  if (workspace_bytes <= device_bytes / kMostOfDevice) return "";
  return fmt::format("cuDNN needs {} bytes of workspace, more than 1/{} of the device's memory",
                     workspace_bytes, kMostOfDevice);
}

std::int64_t supposed_workspace(const AttentionShape& shape, DType dtype) {
  return why_own_attention(AttentionPreference::kFastest, shape, dtype).empty() ? rows_of(shape)
                                                                                : 0;
}

std::int64_t supposed_backward_workspace(const AttentionShape& shape, DType dtype) {
  // The [seq, seq] matrix per head that a deterministic backward needs.
  const std::int64_t matrices =
      rows_of(shape) * shape.seq * static_cast<std::int64_t>(size_of(dtype));
  const bool is_own =
      !why_own_attention(AttentionPreference::kFastest, shape, dtype).empty() ||
      !why_too_large(static_cast<std::size_t>(matrices), kSupposedDeviceBytes).empty();
  return rows_of(shape) + (is_own ? 0 : matrices / static_cast<std::int64_t>(sizeof(float)));
}

}  // namespace trireme::ops::cuda
