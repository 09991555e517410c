#include "parallel/context/context_attention.h"

#include "parallel/context/gathered_attention.h"
#include "parallel/context/replicated_attention.h"
#include "parallel/context/ring_attention.h"
#include "parallel/context/ulysses_attention.h"

namespace trireme {

std::unique_ptr<AttentionCore> context_attention(ContextMethod method, bool is_replicated,
                                                 Communicator& ranks, Communicator& back) {
  if (ranks.size() == 1) return std::make_unique<AttentionCore>();
  if (is_replicated) return std::make_unique<ReplicatedAttention>(ranks);
  switch (method) {
    case ContextMethod::kAllGather:
      return std::make_unique<GatheredAttention>(ranks);
    case ContextMethod::kRing:
      return std::make_unique<RingAttention>(ranks, back);
    case ContextMethod::kUlysses:
      return std::make_unique<UlyssesAttention>(ranks);
  }
  throw Error("no such context method");
}

Messages messages_of(ContextMethod method) {
  switch (method) {
    case ContextMethod::kAllGather:
      return Messages::kNone;
    case ContextMethod::kRing:
      return Messages::kSent;
    case ContextMethod::kUlysses:
      return Messages::kExchanged;
  }
  return Messages::kNone;
}

}  // namespace trireme
