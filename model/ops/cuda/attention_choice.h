#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "model/ops/attention.h"

// Choice of the attention kernels on a GPU, as far as it does not depend on the device.
namespace trireme::ops::cuda {

enum class AttentionPass : std::uint8_t { kForward, kBackward };
enum class AttentionPreference : std::uint8_t { kFastest, kOwn, kCudnn };

// Parses the environment variable TRIREME_ATTENTION: "auto", empty or unset for the fastest
// kernels, "own" for ours, "cudnn" for cuDNN's where it has some. Throws ConfigError for other
// values.
AttentionPreference attention_wish(const char* value);

// Reason for using our own kernels without asking cuDNN; empty: ask cuDNN. `warpgroups`: ours for
// compute capability 9.0 take the shape.
std::string why_own_attention(AttentionPreference, const AttentionShape&, DType,
                              bool warpgroups = false);

// The parts, of equal shape, in which cuDNN's backward runs one after the other. A deterministic
// one writes dP [batch, heads, seq, seq] to its workspace, so that a part has as many batch
// entries, or else as many groups of heads with common keys of one entry, as kMostMatrixBytes hold;
// at least one group.
struct AttentionParts {
  static constexpr std::size_t kMostMatrixBytes = std::size_t{1} << 30;

  AttentionShape each;
  std::int64_t of_batch = 1, of_heads = 1;  // number of parts in each of the two directions

  // The first batch entry, head and head of keys of a part.
  struct Start {
    std::int64_t entry = 0, head = 0, kv_head = 0;
  };
  std::int64_t count() const { return of_batch * of_heads; }
  Start start(std::int64_t part) const;
};
AttentionParts backward_parts(const AttentionShape&, DType);

// The one warning when cuDNN refuses a shape: with the reason and what that costs.
std::string refusal_warning(const AttentionShape&, DType, const std::string& reason);

// Reason for rejecting a cuDNN plan with this workspace on a device with this memory; empty:
// accept.
std::string why_too_large(std::size_t workspace_bytes, std::size_t device_bytes);

// Workspace of our own forward, in accumulators: the counter from which blocks draw their work.
inline constexpr std::int64_t kOwnWorkspace = 1;

// Whether a pass on a GPU that does not exist (imagined_gpu) would use our own kernels; cuDNN takes
// what it usually takes.
bool supposes_own(AttentionPass, const AttentionShape&, DType);

// Parts of the keys of attention_cached that blocks process side by side; more than one where
// tokens and heads alone are too few blocks for a GPU. They depend on the shape alone, so that the
// bits do not depend on the device.
std::int64_t cached_splits(std::int64_t tokens, std::int64_t keys, const Heads&);
// Workspace of attention_cached in accumulators: enough for any number of tokens and keys, since a
// plan has only a prompt's.
std::int64_t cached_workspace(const Heads&);

// Workspace in accumulators on a GPU that does not exist (imagined_gpu): that of cuDNN's kernels on
// an H100 where they would be used, otherwise that of our own.
std::int64_t supposed_workspace(const AttentionShape&, DType);
std::int64_t supposed_backward_workspace(const AttentionShape&, DType);

// Workspace of part_attention and its backward in accumulators, on any GPU: of each query the first
// key that it sees and the end of those; the backward adds a delta for each of its heads.
std::int64_t part_workspace(const AttentionShape&);
std::int64_t part_backward_workspace(const AttentionShape&);

}  // namespace trireme::ops::cuda
