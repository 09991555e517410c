#pragma once
#include <vector>

#include "model/params/param_store.h"
#include "parallel/comm/communicator.h"

namespace trireme {

// Brings the values that other ranks own to where the layers read them.
//
// Where the ranks hold them in common, in memory that they share, an owner's update is there
// for all; publish() waits for all owners.
//
// Where the store holds all values, publish() fills in what the owners have updated, bucket
// by bucket in the order of use, while the next forward begins. Where it shares them out
// (ZeRO-3), a unit's are gathered when they are needed, the next unit's beside the
// computation, and overwritten by a later unit's.
class ParameterGatherer {
 public:
  // The store is allocated; `in_common`: its values are every rank's. What is gathered for the
  // moment is taken from `messages`.
  ParameterGatherer(ParamStore& store, Communicator& shard, bool in_common, Arena& messages);

  // The unit is about to be used, and the next one will be (-1: none).
  void before_use(Stream& stream, int unit, int next);
  // The owned parts of all values are new.
  void publish(Stream& stream);
  // What was published is all there for what is queued from here on.
  void finish();

 private:
  struct Slot {
    Tensor memory;
    int unit = -1;
    Transfer transfer = {};
  };
  void gather(Stream& stream, int unit);

  ParamStore& store_;
  Communicator& shard_;
  bool in_common_;
  std::vector<Transfer> published_;  // by bucket
  std::vector<Slot> slots_;
  std::vector<int> slot_of_;  // by unit
};

}  // namespace trireme
