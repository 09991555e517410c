#include "trainer/tools/verify/mistaken_calls.h"

#include "model/base/error.h"

namespace trireme::verify {
namespace {

using ledger::Operation;
using ledger::Phase;

constexpr int kLayer = 1;  // where one has to be chosen

class MistakeInCalls final : public Mistake {
 public:
  explicit MistakeInCalls(const CallMistake& call) : call_(call) {}
  void make_in(RankGroups& groups) override {
    std::unique_ptr<Communicator>& group = groups.*call_.group;
    if (group->size() == 1) return;
    group = std::make_unique<MistakenGroup>(
        std::move(group), *groups.ledger,
        MistakenGroup::Options{
            .calls = call_.calls, .deed = call_.deed, .made = [this] { note_made(); }});
  }

 private:
  CallMistake call_;
};

}  // namespace

const std::vector<CallMistake>& call_mistakes() {
  static const std::vector<CallMistake> kAll{
      // Norms' and key-value heads' gradients, of which each tensor rank has a share.
      {"lost-norm-sums", &RankGroups::tensor, {Operation::kAllReduce, Phase::kReduce}, Deed::kSkip},
      {"lost-key-value-sums",
       &RankGroups::key_value,
       {Operation::kAllReduce, Phase::kReduce},
       Deed::kSkip},
      // The embedding's, which the head on the last stage uses too.
      {"lost-tied-sum", &RankGroups::ends, {Operation::kAllReduce, Phase::kReduce}, Deed::kSkip},
      // After a matrix whose columns are shared out, and on the way back before one whose rows are.
      {"lost-forward-sum",
       &RankGroups::tensor,
       {Operation::kAllReduce, Phase::kForward, kLayer, 1},
       Deed::kSkip},
      {"lost-backward-sum",
       &RankGroups::tensor,
       {Operation::kAllReduce, Phase::kBackward, kLayer, 0},
       Deed::kSkip},
      {"lost-softmax-maximum",
       &RankGroups::tensor,
       {.operation = Operation::kAllReduce, .phase = Phase::kForward, .reduce = Reduce::kMax},
       Deed::kSkip},
      {"swapped-sequence-parts",
       &RankGroups::tensor,
       {Operation::kAllGather, Phase::kForward, kLayer, 0},
       Deed::kSwap},
      // Sums over data ranks.
      {"lost-bucket",
       &RankGroups::replicate,
       {Operation::kAllReduce, Phase::kBackward, kLayer, 0},
       Deed::kSkip},
      {"doubled-bucket",
       &RankGroups::replicate,
       {Operation::kAllReduce, Phase::kBackward, kLayer, 0},
       Deed::kTwice},
      {"averaged-replicas",
       &RankGroups::replicate,
       {Operation::kAllReduce, Phase::kBackward},
       Deed::kMean},
      {"lost-scatter",
       &RankGroups::shard,
       {Operation::kReduceScatter, Phase::kBackward, kLayer, 0},
       Deed::kSkip},
      {"doubled-scatter",
       &RankGroups::shard,
       {Operation::kReduceScatter, Phase::kBackward, kLayer, 0},
       Deed::kTwice},
      // ZeRO's weights.
      {"old-weights",
       &RankGroups::shard,
       {.operation = Operation::kAllGather, .phase = Phase::kForward, .from_step = 2},
       Deed::kOld},
      {"unpublished-weights",
       &RankGroups::shard,
       {.operation = Operation::kAllGather, .phase = Phase::kPublish, .nth = 1},
       Deed::kSkip},
      {"lost-norm-exchange",
       &RankGroups::state,
       {Operation::kAllReduce, Phase::kGradNorm},
       Deed::kSkip},
      // The pipeline.
      {"repeated-activation",
       &RankGroups::down,
       {Operation::kSend, Phase::kForward},
       Deed::kRepeat},
      {"repeated-gradient", &RankGroups::up, {Operation::kSend, Phase::kBackward}, Deed::kRepeat},
  };
  return kAll;
}

std::unique_ptr<Mistake> make_mistake(const CallMistake& call) {
  return std::make_unique<MistakeInCalls>(call);
}

}  // namespace trireme::verify
