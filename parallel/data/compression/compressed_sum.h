#pragma once
#include <cmath>
#include <cstdint>
#include <memory>

#include "model/device/stream.h"
#include "model/tensor/arena.h"
#include "parallel/comm/communicator.h"
#include "parallel/data/compression/gradient_range.h"

namespace trireme {

// Memory of a compressed sum, allocated at construction.
struct CompressionMemory {
  Arena& state;     // persistent across steps: residuals, warm starts
  Arena& messages;  // send and receive buffers
};

// The sum of one gradient range over its ranks, sent in fewer bytes.
//
// Lossy methods keep the part they did not send as the residual and add it to the next gradient
// (error feedback). A non-finite gradient makes the sum non-finite on every rank and does not enter
// the residual.
class CompressedSum {
 public:
  CompressedSum() = default;
  CompressedSum(const CompressedSum&) = delete;
  CompressedSum& operator=(const CompressedSum&) = delete;
  virtual ~CompressedSum() = default;

  // Replaces the range by an approximation of its sum over the ranks, with the same bits on all.
  // `update` counts from 1 over the whole run.
  virtual void reduce(Stream& stream, std::int64_t update) = 0;
  // Bytes that one reduce() sends from this rank, by the convention of all_reduce_bytes.
  virtual std::int64_t bytes_sent() const = 0;
};

template <class T>
T finite_or_zero(T value) {
  return std::isfinite(value) ? value : T{0};
}

// Bytes that a rank sends in a bandwidth-optimal collective (ring or direct exchange), whatever the
// library does.
inline std::int64_t all_reduce_bytes(const Communicator& group, std::size_t bytes) {
  return 2 * static_cast<std::int64_t>(bytes) * (group.size() - 1) / group.size();
}
inline std::int64_t all_gather_bytes(const Communicator& group, std::size_t part) {
  return static_cast<std::int64_t>(part) * (group.size() - 1);
}
inline std::int64_t all_to_all_bytes(const Communicator& group, std::size_t sent) {
  return static_cast<std::int64_t>(sent) * (group.size() - 1) / group.size();
}

// The methods.

// Rounds every rank's gradients to bfloat16 and sums them in float32: half the bytes of float32.
// Needs no residual: the error is at most 1 part in 256 and unbiased.
std::unique_ptr<CompressedSum> make_bfloat16_sum(Communicator& group, const GradientRange& range,
                                                 CompressionMemory memory);

// Scales every rank's gradients by one power of two, rounds them to float16 and sums them in
// float32: half the bytes of float32. The scale comes from the largest gradient of all ranks, so
// that no sum overflows. Needs no residual: the error is at most 1 part in 2048 for elements above
// 2^-29 of the largest. CPU only.
std::unique_ptr<CompressedSum> make_float16_sum(Communicator& group, const GradientRange& range,
                                                CompressionMemory memory);

// Sends one sign bit per element and one mean magnitude per 512 elements (Seide et al. 2014;
// Karimireddy et al. 2019), with error feedback on both sides of the sum (1-bit Adam, Tang et al.
// 2021): every rank sums one shard of the range from the bits of all ranks and sends that sum as
// bits again. Elements much larger than the mean of their chunk take many updates to be
// transmitted. CPU only.
std::unique_ptr<CompressedSum> make_one_bit_sum(Communicator& group, const GradientRange& range,
                                                CompressionMemory memory);

// PowerSGD (Vogels et al. 2019): approximates every matrix M + residual, summed over the ranks, by
// p q of the given rank, p orthonormal, with one power iteration from the q of the last update.
// Sends p [rows, rank] and q [rank, width]; vectors, and matrices that would not shrink, are sent
// uncompressed. Exact for sums of at most this rank. CPU only.
std::unique_ptr<CompressedSum> make_power_sgd_sum(Communicator& group, const GradientRange& range,
                                                  int rank, CompressionMemory memory);

// Every rank sends a fraction of its elements, the largest in magnitude, with their indices (Aji
// and Heafield 2017; error feedback: Stich et al. 2018); the rest is kept in the residual. CPU
// only.
std::unique_ptr<CompressedSum> make_top_k_sum(Communicator& group, const GradientRange& range,
                                              double fraction, CompressionMemory memory);

}  // namespace trireme
