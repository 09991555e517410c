#pragma once
#include <memory>
#include <vector>

#include "parallel/comm/communicator.h"
#include "parallel/data/compression/compressed_sum.h"
#include "parallel/data/compression/compression_options.h"
#include "parallel/data/compression/gradient_range.h"

namespace trireme {

// Sums the gradients of a model's replicas, range by range (buckets), as the options say;
// without compression as Communicator::all_reduce does. The residuals are this rank's own
// and no part of a checkpoint, which knows no replicas: a run that resumes starts with none,
// as after a warm-up, and loses what they held, a few updates' small components.
class GradientCompression {
 public:
  // The ranges do not overlap. Throws ConfigError for a method that the memory's device has not
  // got: all but bfloat16 are the CPU's.
  GradientCompression(const CompressionOptions& options, Communicator& replicas,
                      std::vector<GradientRange> ranges, CompressionMemory memory);

  // Range `index` becomes its sum, the same bits on every rank. In one order on all ranks;
  // `update` counts from 1 over the whole run.
  void reduce(Stream& stream, std::size_t index, std::int64_t update);

  bool compresses() const { return !sums_.empty(); }
  // What an update sends from this rank once the warm-up is over, and would uncompressed.
  struct Traffic {
    std::int64_t sent = 0, uncompressed = 0;
    double ratio() const { return static_cast<double>(uncompressed) / static_cast<double>(sent); }
  };
  Traffic traffic() const;
  // Whether what is left out of one sum is added to the next.
  bool has_residuals() const;

 private:
  CompressionOptions options_;
  Communicator& replicas_;
  std::vector<GradientRange> ranges_;
  std::vector<std::unique_ptr<CompressedSum>> sums_;  // of the ranges; empty without compression
};

}  // namespace trireme
