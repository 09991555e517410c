#pragma once
#include <optional>
#include <vector>

#include "model/params/param_store.h"
#include "parallel/data/compression/gradient_compression.h"
#include "parallel/data/data_ranks.h"

namespace trireme {

// Sums the gradients of data-parallel ranks, bucket by bucket and overlapped with the backward, so
// that each rank has the sum of the shards it owns.
//
// If the store shards gradients (ZeRO-2, Rajbhandari et al. 2020), the gradients of a unit exist
// only during the backward of a micro-batch: they are then reduce-scattered, and the owner
// accumulates its shard. Otherwise they accumulate locally and are reduced once, during the
// backward of the last micro-batch.
//
// Reproducible sums use a fixed tree over the micro-batches of all ranks (TreeSum), independent of
// the number of ranks, of buckets and of gradient sharding; see MicroBatches. The gradients that
// the tokens of each expert rank give to an expert are then leaves of their own, kept apart until
// they are summed: as much memory as if each rank had all experts.
//
// Sums over replicas may be compressed; they then start after the last backward.
class GradientReducer {
 public:
  struct Options {
    std::int64_t micro_batches = 1;  // most micro-batches of this rank in a step
    bool reproducible = false;       // not supported with compression
    int expert_ranks = 1;            // whose tokens an expert sees; with more, no compression
    CompressionOptions compression = {};
  };
  // The store is allocated. Permanently allocates partial sums and residuals in `gradients`, and
  // communication buffers in `messages`.
  GradientReducer(ParamStore& store, const GroupRanks& ranks, const Options& options,
                  Arena& gradients, Arena& messages);

  // Called before the first backward of a step with `micro_batches` micro-batches on this rank.
  void begin(std::int64_t micro_batches);
  // Called before and after a micro-batch accumulates a unit's gradients.
  void before(Stream& stream, int unit);
  void after(Stream& stream, int unit);
  // For captured work. Equal numbers for two micro-batches, the k-th of a step for a unit, mean
  // that the layers put their gradients to the same place in the same way, and that the calls queue
  // something at the same units.
  int gradient_place(std::int64_t k) const;
  // The part of before() that decides this; it queues nothing.
  void place(int unit);
  // Whether before() or after() may queue something or start a transfer, now.
  bool queues_before() const { return shared_; }
  bool queues_after(int unit) const;
  // Returns when the sums, including those of separate shards, are in the store's gradients.
  // `update` counts from 1 over the whole run.
  void finish(Stream& stream, std::int64_t update);

  const GradientCompression& compression() const { return *compression_; }

 private:
  struct Slot {
    Tensor memory;
    int bucket = -1;  // bucket whose gradients are in this slot or in flight
    std::int64_t micro_batch = 0;
    Transfer transfer = {};
  };
  // Sums of one expert rank's tokens, or of all: the elements of the store from `begin` on.
  struct Tree {
    std::int64_t begin = 0;
    Tensor total = {};
    std::vector<Tensor> levels = {};  // partial sums, each shaped like the total

    Tree range(std::int64_t from, std::int64_t count) const;
  };
  Tensor own(int bucket) const;
  std::vector<Tensor> partial(int bucket) const;
  Slot& slot_of(int unit);
  int leaves_of(int unit) const;
  void take_trees(Arena& gradients);
  const ParamStore::Bucket& bucket_of(int unit) const;
  bool starts_reductions() const;
  void reduce(Stream& stream, int bucket);
  void empty(Stream& stream, Slot& slot);
  void take_in(Stream& stream, int bucket, std::int64_t micro_batch, Tensor part);

  ParamStore& store_;
  GroupRanks ranks_;
  Options options_;
  bool shared_;                              // gradients are sharded
  std::vector<Tree> trees_;                  // by expert rank; the first also of dense parameters
  std::int64_t in_step_;                     // micro-batches of the step
  std::vector<std::int64_t> arrived_;        // micro-batches done, by unit
  std::vector<std::int64_t> units_missing_;  // by bucket: units that wait for micro-batches
  struct Reduction {
    int bucket;
    Transfer transfer;
  };
  std::vector<Reduction> under_way_;
  std::optional<GradientCompression> compression_;  // of the sums over replicas
  std::vector<Slot> slots_;                         // for sharded gradients
  std::vector<int> slot_of_;                        // by unit
};

// Maps a rank's micro-batch to its index in the global step. Sharded gradients are reduced per
// micro-batch, so leaves adjacent in the tree must be on different ranks; otherwise on the same
// rank.
struct MicroBatches {
  std::int64_t ranks = 1, of_each = 1;
  bool gradients_shared = false;

  std::int64_t number(std::int64_t rank, std::int64_t own) const {
    return gradients_shared ? own * ranks + rank : rank * of_each + own;
  }
};

}  // namespace trireme
