#pragma once
#include <memory>

#include "model/layers/attention.h"
#include "parallel/comm/communicator.h"
#include "parallel/context/context_method.h"

namespace trireme {

// The attention of ranks that shard sequences by `method` or, if `is_replicated`, have whole ones
// (ReplicatedAttention); of a single rank the layers' own. `ranks`, and `back` for a ring's
// gradients, outlive it.
std::unique_ptr<AttentionCore> context_attention(ContextMethod method, bool is_replicated,
                                                 Communicator& ranks, Communicator& back);

// What the ranks of a method send to each other.
Messages messages_of(ContextMethod method);

}  // namespace trireme
