#pragma once
#include <optional>
#include <vector>

#include "model/params/param_store.h"
#include "parallel/data/compression/gradient_compression.h"
#include "parallel/data/data_ranks.h"

namespace trireme {

// Sums the gradients of the ranks that see other data, bucket by bucket while the backward
// goes on, so that each rank has the sum of the parts it owns.
//
// Where the store shares its gradients out (ZeRO-2, Rajbhandari et al. 2020), those of a
// unit exist for a micro-batch's backward alone: then they are reduced, and the owner adds
// up its part. Else they add up where they are and are reduced once, from the last
// micro-batch's backward on.
//
// Reproducible sums are those of a fixed tree over the micro-batches of all ranks (TreeSum),
// whatever the ranks, the buckets, and whether gradients are shared out; see MicroBatches.
//
// Between replicas the sums may be compressed; they then wait for the last backward's end.
class GradientReducer {
 public:
  struct Options {
    std::int64_t micro_batches = 1;  // of this rank in a step, at most
    bool reproducible = false;       // not with compression
    CompressionOptions compression = {};
  };
  // The store is allocated. Partial sums and residuals are taken from `gradients`, what is on
  // its way from `messages`, for good.
  GradientReducer(ParamStore& store, DataRanks ranks, const Options& options, Arena& gradients,
                  Arena& messages);

  // Before the first backward of a step of so many micro-batches of this rank.
  void begin(std::int64_t micro_batches);
  // Around what one micro-batch adds to a unit's gradients.
  void before(Stream& stream, int unit);
  void after(Stream& stream, int unit);
  // Returns when the sums, the parts kept apart included, are in the store's own gradients.
  // `update` counts from 1 over the whole run.
  void finish(Stream& stream, std::int64_t update);

  const GradientCompression& compression() const { return *compression_; }

 private:
  struct Slot {
    Tensor memory;
    int bucket = -1;  // whose gradients are here, or on their way from here
    std::int64_t micro_batch = 0;
    Transfer transfer = {};
  };
  Tensor own(int bucket) const;
  std::vector<Tensor> partial(int bucket) const;
  Slot& slot_of(int unit);
  void reduce(Stream& stream, int bucket);
  void empty(Stream& stream, Slot& slot);
  void take_in(Stream& stream, int bucket, std::int64_t micro_batch, Tensor part);

  ParamStore& store_;
  DataRanks ranks_;
  Options options_;
  bool shared_;                              // the gradients are shared out
  std::vector<Tensor> levels_;               // partial sums, each like the store's gradients
  std::int64_t in_step_;                     // micro-batches of the step
  std::vector<std::int64_t> arrived_;        // of these, by unit
  std::vector<std::int64_t> units_missing_;  // by bucket: that have not seen all micro-batches
  struct Reduction {
    int bucket;
    Transfer transfer;
  };
  std::vector<Reduction> under_way_;
  std::optional<GradientCompression> compression_;  // of the buckets
  std::vector<Slot> slots_;                         // of gradients that are shared out
  std::vector<int> slot_of_;                        // by unit
};

// Which of the step's micro-batches, counted over all data ranks, a rank's own one is.
// Gradients that are shared out are reduced micro-batch by micro-batch, so that neighbours
// in the tree must be on different ranks; else on the same.
struct MicroBatches {
  std::int64_t ranks = 1, of_each = 1;
  bool gradients_shared = false;

  std::int64_t number(std::int64_t rank, std::int64_t own) const {
    return gradients_shared ? own * ranks + rank : rank * of_each + own;
  }
};

}  // namespace trireme
