#include "parallel/context/context_attention.h"

#include "parallel/context/gathered_attention.h"
#include "parallel/context/replicated_attention.h"
#include "parallel/context/ring_attention.h"
#include "parallel/context/ulysses_attention.h"

namespace trireme {

namespace {

std::unique_ptr<AttentionCore> attention_between(ContextMethod method,
                                                 const ContextGroups& groups) {
  if (groups.between.size() == 1) return std::make_unique<AttentionCore>();
  if (method == ContextMethod::kRing) {
    return std::make_unique<RingAttention>(groups.between, groups.back);
  }
  return std::make_unique<GatheredAttention>(groups.between);
}

}  // namespace

std::unique_ptr<AttentionCore> context_attention(ContextMethod method, bool is_replicated,
                                                 const ContextGroups& groups) {
  if (is_replicated) return std::make_unique<ReplicatedAttention>(groups.between);
  std::unique_ptr<AttentionCore> between = attention_between(method, groups);
  if (groups.heads.size() == 1) return between;
  return std::make_unique<UlyssesAttention>(groups.heads, std::move(between));
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
