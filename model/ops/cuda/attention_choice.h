#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "model/ops/attention.h"

// Which kernels compute attention on a GPU, as far as that can be told without one.
namespace trireme::ops::cuda {

enum class AttentionWish : std::uint8_t { kFastest, kOwn };

// Of the environment's TRIREME_ATTENTION: "auto", none or empty for the fastest kernels, "own" for
// ours. Throws ConfigError for anything else.
AttentionWish attention_wish(const char* value);

// Why our own kernels compute this, whatever cuDNN can; empty: cuDNN is asked.
std::string why_own_attention(AttentionWish, const AttentionShape&, DType);

// Why a plan of cuDNN's that needs so much workspace is not taken on a device with so much
// memory; empty: it is. A backward with the same bits in every run may keep a whole
// [seq, seq] matrix of every head.
std::string why_too_large(std::size_t workspace_bytes, std::size_t device_bytes);

// Accumulators of workspace where there is no GPU to ask (imagined_gpu): those of cuDNN's
// kernels where it would be asked, as on an H100, else those of our own.
std::int64_t supposed_workspace(const AttentionShape&, DType);
std::int64_t supposed_backward_workspace(const AttentionShape&, DType);

}  // namespace trireme::ops::cuda
