#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "model/ops/attention.h"

// Choice of the attention kernels on a GPU, as far as it does not depend on the device.
namespace trireme::ops::cuda {

enum class AttentionPreference : std::uint8_t { kFastest, kOwn };

// Parses the environment variable TRIREME_ATTENTION: "auto", empty or unset for the fastest
// kernels, "own" for ours. Throws ConfigError for other values.
AttentionPreference attention_wish(const char* value);

// Reason for using our own kernels without asking cuDNN; empty: ask cuDNN.
std::string why_own_attention(AttentionPreference, const AttentionShape&, DType);

// Reason for rejecting a cuDNN plan with this workspace on a device with this memory; empty:
// accept. A deterministic backward may need a whole [seq, seq] matrix per head.
std::string why_too_large(std::size_t workspace_bytes, std::size_t device_bytes);

// Workspace in accumulators on a GPU that does not exist (imagined_gpu): that of cuDNN's kernels on
// an H100 where they would be used, otherwise that of our own.
std::int64_t supposed_workspace(const AttentionShape&, DType);
std::int64_t supposed_backward_workspace(const AttentionShape&, DType);

}  // namespace trireme::ops::cuda
