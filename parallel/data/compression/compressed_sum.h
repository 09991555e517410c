#pragma once
#include <cmath>
#include <cstdint>

#include "model/device/stream.h"
#include "model/tensor/arena.h"

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
  // Bytes that one reduce() sends from this rank, by the convention of traffic.h.
  virtual std::int64_t bytes_sent() const = 0;
};

template <class T>
T finite_or_zero(T value) {
  return std::isfinite(value) ? value : T{0};
}

}  // namespace trireme
