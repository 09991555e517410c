#include <algorithm>
#include <span>
#include <vector>

#include "parallel/context/row_shards.h"
#include "trainer/tools/verify/mistaken_group.h"
#include "trainer/tools/verify/mistakes.h"
#include "trainer/tools/verify/subject.h"

namespace trireme::verify {
namespace {

using flight::Operation;
using flight::Phase;

// Context ranks mask their tokens as if every sequence were one document.
class LeakedDocuments final : public Mistake {
 public:
  void in_batch(const Subject& subject, const Samples& /*samples*/,
                std::int64_t /*step*/) override {
    if (subject.groups().context->size() == 1) return;
    const std::span<std::int32_t> starts = subject.engine().batch().document_start;
    if (std::ranges::any_of(starts, [](std::int32_t row) { return row > 0; })) note_made();
    std::ranges::fill(starts, 0);
  }
};

// The second context rank has the tokens of the first.
class RepeatedShard final : public Mistake {
 public:
  void in_batch(const Subject& subject, const Samples& /*samples*/,
                std::int64_t /*step*/) override {
    const Communicator& context = *subject.groups().context;
    if (context.rank() != 1 || !divides_sequences(subject.engine().spec())) return;
    const data::TokenBatch batch = subject.engine().batch();
    std::vector<std::int32_t> rows(static_cast<std::size_t>(batch.seq_len));
    const std::size_t shard = rows.size() / static_cast<std::size_t>(context.size());
    for (std::int64_t i = 0; i < batch.sequences; ++i) {
      const data::TokenBatch sequence = batch.part(i, 1);
      shard_rows(rows, sequence.document_start, context.size());
      for (std::size_t at = 0; at < shard; ++at) {
        const auto from = static_cast<std::size_t>(rows[at]);
        const auto to = static_cast<std::size_t>(rows[shard + at]);
        sequence.ids[to] = sequence.ids[from];
        sequence.targets[to] = sequence.targets[from];
      }
    }
    note_made();
  }
};

// Gradients are summed over the data ranks alone.
class LostContextSum final : public Mistake {
 public:
  void make_in(RankGroups& groups) override {
    if (groups.context->size() == 1 || groups.shard->size() > 1) return;
    Communicator* const data = groups.data.get();
    groups.replicate = std::make_unique<MistakenGroup>(
        std::move(groups.replicate), *groups.recorder,
        MistakenGroup::Options{.calls = {Operation::kAllReduce, Phase::kBackward},
                               .fault = GroupFault::kInstead,
                               .instead = data,
                               .made = [this] { note_made(); }});
  }
};

template <class SomeMistake>
std::unique_ptr<Mistake> in_context() {
  return std::make_unique<SomeMistake>();
}

}  // namespace

std::map<std::string, std::function<std::unique_ptr<Mistake>()>> context_mistakes() {
  return {{"leaked-documents", in_context<LeakedDocuments>},
          {"repeated-shard", in_context<RepeatedShard>},
          {"lost-context-sum", in_context<LostContextSum>}};
}

}  // namespace trireme::verify
