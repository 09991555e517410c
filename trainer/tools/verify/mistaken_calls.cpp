#include "trainer/tools/verify/mistakes.h"

#include <array>

#include "model/base/error.h"

namespace trireme::verify {
namespace {

using flight::Operation;
using flight::Phase;

constexpr int kLayer = 1;  // of mistakes that affect one layer

class MistakeInCalls final : public Mistake {
 public:
  explicit MistakeInCalls(const CallMistake& call) : call_(call) {}
  void make_in(RankGroups& groups) override {
    std::unique_ptr<Communicator>& group = groups.*call_.group;
    if (!group || group->size() == 1) return;
    group = std::make_unique<MistakenGroup>(
        std::move(group), *groups.recorder,
        MistakenGroup::Options{
            .calls = call_.calls, .fault = call_.fault, .made = [this] { note_made(); }});
  }

 private:
  CallMistake call_;
};

constexpr std::array kCallMistakes{
    // Gradients of norms and key-value heads, which are partial sums on each tensor rank.
    CallMistake{"lost-norm-sums",
                &RankGroups::tensor,
                {Operation::kAllReduce, Phase::kReduce},
                GroupFault::kSkip},
    CallMistake{"lost-key-value-sums",
                &RankGroups::kv_replicas,
                {Operation::kAllReduce, Phase::kReduce},
                GroupFault::kSkip},
    // Gradient of the embedding table, which is tied to the head on the last stage.
    CallMistake{"lost-tied-sum",
                &RankGroups::embedding_group,
                {Operation::kAllReduce, Phase::kReduce},
                GroupFault::kSkip},
    // Output of row-parallel layers, and input gradient of column-parallel layers.
    CallMistake{"lost-forward-sum",
                &RankGroups::tensor,
                {Operation::kAllReduce, Phase::kForward, kLayer, 1},
                GroupFault::kSkip},
    CallMistake{"lost-backward-sum",
                &RankGroups::tensor,
                {Operation::kAllReduce, Phase::kBackward, kLayer, 0},
                GroupFault::kSkip},
    CallMistake{
        "lost-softmax-maximum",
        &RankGroups::tensor,
        {.operation = Operation::kAllReduce, .phase = Phase::kForward, .reduce = Reduce::kMax},
        GroupFault::kSkip},
    CallMistake{"swapped-sequence-parts",
                &RankGroups::tensor,
                {Operation::kAllGather, Phase::kForward, kLayer, 0},
                GroupFault::kSwap},
    // Gradient reduction over data-parallel ranks.
    CallMistake{"lost-bucket",
                &RankGroups::replicate,
                {Operation::kAllReduce, Phase::kBackward, kLayer, 0},
                GroupFault::kSkip},
    CallMistake{"doubled-bucket",
                &RankGroups::replicate,
                {Operation::kAllReduce, Phase::kBackward, kLayer, 0},
                GroupFault::kTwice},
    CallMistake{"averaged-replicas",
                &RankGroups::replicate,
                {Operation::kAllReduce, Phase::kBackward},
                GroupFault::kMean},
    CallMistake{"lost-scatter",
                &RankGroups::shard,
                {Operation::kReduceScatter, Phase::kBackward, kLayer, 0},
                GroupFault::kSkip},
    CallMistake{"doubled-scatter",
                &RankGroups::shard,
                {Operation::kReduceScatter, Phase::kBackward, kLayer, 0},
                GroupFault::kTwice},
    // Keys and values of context ranks, and the sums of their gradients.
    CallMistake{"swapped-context-keys",
                &RankGroups::context,
                {Operation::kAllGather, Phase::kForward, kLayer, 0},
                GroupFault::kSwap},
    CallMistake{"swapped-context-heads",
                &RankGroups::context,
                {Operation::kAllToAll, Phase::kForward, kLayer, 0},
                GroupFault::kSwap},
    CallMistake{"old-context-keys",
                &RankGroups::context,
                {Operation::kAllGather, Phase::kForward, kLayer},
                GroupFault::kRepeat},
    CallMistake{"lost-context-key-gradients",
                &RankGroups::context,
                {Operation::kReduceScatter, Phase::kBackward, kLayer},
                GroupFault::kSkip},
    CallMistake{"repeated-context-keys",
                &RankGroups::context,
                {Operation::kSend, Phase::kForward},
                GroupFault::kRepeat},
    // Gradient reduction of experts over their replicas.
    CallMistake{"lost-expert-sum",
                &RankGroups::expert_replicate,
                {.operation = Operation::kAllReduce},
                GroupFault::kSkip},
    CallMistake{"lost-expert-scatter",
                &RankGroups::expert_shard,
                {.operation = Operation::kReduceScatter},
                GroupFault::kSkip},
    // All-gather of ZeRO weights.
    CallMistake{"old-weights",
                &RankGroups::shard,
                {.operation = Operation::kAllGather, .phase = Phase::kForward, .from_step = 2},
                GroupFault::kStale},
    CallMistake{"unpublished-weights",
                &RankGroups::shard,
                {.operation = Operation::kAllGather, .phase = Phase::kPublish, .nth = 1},
                GroupFault::kSkip},
    CallMistake{"lost-norm-exchange",
                &RankGroups::model_state,
                {Operation::kAllReduce, Phase::kGradNorm},
                GroupFault::kSkip},
    // Pipeline messages.
    CallMistake{"repeated-activation",
                &RankGroups::pp_forward,
                {Operation::kSend, Phase::kForward},
                GroupFault::kRepeat},
    CallMistake{"repeated-gradient",
                &RankGroups::pp_backward,
                {Operation::kSend, Phase::kBackward},
                GroupFault::kRepeat},
};

}  // namespace

std::span<const CallMistake> call_mistakes() {
  return kCallMistakes;
}

std::unique_ptr<Mistake> make_mistake(const CallMistake& call) {
  return std::make_unique<MistakeInCalls>(call);
}

}  // namespace trireme::verify
