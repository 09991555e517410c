#pragma once
#include <memory>

#include "model/layers/attention.h"
#include "parallel/comm/communicator.h"
#include "parallel/context/context_method.h"

namespace trireme {

// The levels of a context group; they outlive their users.
struct ContextGroups {
  Communicator& heads;    // adjacent ranks that exchange tokens for heads; or a single one
  Communicator& between;  // one rank of each such group
  Communicator& back;     // the same, for a ring's gradients
};

// The attention of ranks that shard sequences: `method` between groups that exchange tokens for
// heads. If `is_replicated`, ranks have whole sequences (ReplicatedAttention); of a single rank the
// layers' own.
std::unique_ptr<AttentionCore> context_attention(ContextMethod method, bool is_replicated,
                                                 const ContextGroups& groups);

// What the ranks of a method send to each other.
Messages messages_of(ContextMethod method);

}  // namespace trireme
