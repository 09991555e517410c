#pragma once
#include <vector>

#include "model/params/param_store.h"
#include "parallel/data/data_ranks.h"

namespace trireme {

// Provides the layers with parameter values that other ranks own.
//
// If the ranks of a host keep the values in shared memory, an owner's update is visible to all;
// publish() waits for all owners.
//
// If the store holds all values, publish() all-gathers the updated shards, bucket by bucket in
// order of use, overlapped with the next forward. If it shards them (ZeRO-3), a unit's values are
// all-gathered before use, with the next unit prefetched during the computation, and are
// overwritten by a later unit.
class ParameterGatherer {
 public:
  // The store is allocated; `in_common`: its values are in memory shared by all ranks. Allocates
  // gather buffers in `messages`.
  ParameterGatherer(ParamStore& store, const GroupRanks& ranks, bool in_common, Arena& messages);

  // Called before `unit` is used; `next` is the unit to prefetch (-1: none).
  void before_use(Stream& stream, int unit, int next);
  // Whether published values have not been waited for.
  bool is_publishing() const;
  // Whether before_use() may queue something or wait for a transfer, now.
  bool queues_before_use() const { return !slots_.empty() || is_publishing(); }
  // Called after the owned shards of all values were updated.
  void publish(Stream& stream);
  // Work enqueued from here on sees all published values.
  void finish();

 private:
  struct Slot {
    Tensor memory;
    int unit = -1;
    Transfer transfer = {};
  };
  void gather(Stream& stream, int unit);

  ParamStore& store_;
  GroupRanks ranks_;
  bool in_common_;
  std::vector<Transfer> published_;  // by bucket
  std::vector<Slot> slots_;
  std::vector<int> slot_of_;  // by unit
};

}  // namespace trireme
