#pragma once
#include <memory>
#include <vector>

#include "parallel/comm/communicator.h"
#include "parallel/data/compression/compressed_sum.h"
#include "parallel/data/compression/compression_options.h"
#include "parallel/data/compression/gradient_range.h"

namespace trireme {

// Sums the gradients of a model's replicas, range by range (buckets), with the configured
// compression; without compression it is Communicator::all_reduce. Residuals are local to a rank
// and not checkpointed, since a checkpoint is independent of the number of replicas: a resumed run
// starts with zero residuals and loses the small components of a few updates.
class GradientCompression {
 public:
  // The ranges do not overlap. Throws ConfigError for a method that the memory's device does not
  // support: all but bfloat16 are CPU only.
  GradientCompression(const CompressionOptions& options, Communicator& replicas,
                      std::vector<GradientRange> ranges, CompressionMemory memory);

  // Replaces range `index` by its sum, with the same bits on every rank. All ranks use the same
  // order; `update` counts from 1 over the whole run.
  void reduce(Stream& stream, std::size_t index, std::int64_t update);

  bool compresses() const { return !sums_.empty(); }
  // Bytes an update sends from this rank after warm-up, and without compression.
  struct Traffic {
    std::int64_t sent = 0, uncompressed = 0;
    double ratio() const { return static_cast<double>(uncompressed) / static_cast<double>(sent); }
  };
  Traffic traffic() const;
  // Whether the method uses error feedback.
  bool has_residuals() const { return options_.keeps_residuals(); }

 private:
  CompressionOptions options_;
  Communicator& replicas_;
  std::vector<GradientRange> ranges_;
  std::vector<std::unique_ptr<CompressedSum>> sums_;  // by range; empty without compression
};

}  // namespace trireme
