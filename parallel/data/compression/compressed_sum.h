#pragma once
#include <cmath>
#include <cstdint>

#include "model/device/stream.h"
#include "model/tensor/arena.h"

namespace trireme {

// Where a compressed sum keeps what it needs, taken for good when it is made.
struct CompressionMemory {
  Arena& state;     // what lives from step to step: residuals, warm starts
  Arena& messages;  // what is sent and received
};

// The sum of one range of gradients over the ranks that hold it, sent in fewer bytes.
//
// What a message leaves out stays behind as the residual and is added to the next
// gradient (error feedback), in methods that leave out much. A gradient that is not finite
// makes a sum that is not finite on every rank, and leaves nothing of that in the residual.
class CompressedSum {
 public:
  CompressedSum() = default;
  CompressedSum(const CompressedSum&) = delete;
  CompressedSum& operator=(const CompressedSum&) = delete;
  virtual ~CompressedSum() = default;

  // The range becomes an approximation of its sum over the ranks, the same bits on all.
  // `update` counts from 1 over the whole run.
  virtual void reduce(Stream& stream, std::int64_t update) = 0;
  // What one reduce sends from this rank, counted as traffic.h says.
  virtual std::int64_t bytes_sent() const = 0;
};

template <class T>
T finite_or_zero(T value) {
  return std::isfinite(value) ? value : T{0};
}

}  // namespace trireme
