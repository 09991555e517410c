#include <fmt/format.h>

#include <vector>

#include "model/base/error.h"
#include "model/base/human.h"
#include "trainer/supervise/preflight/check.h"

namespace trireme::preflight {
namespace {

// Reads samples spread over the epoch through the training code path.
void look_into(const data::SampleSource& source) {
  constexpr std::uint64_t kSamples = 16;
  const std::uint64_t count = source.samples_per_epoch();
  for (std::uint64_t i = 0; i < std::min(count, kSamples); ++i) {
    const std::uint64_t sample = i * (count / std::min(count, kSamples));
    const data::SequenceBuffer row(source.seq_len(sample));
    source.fill(sample, row.batch());
    for (const std::int32_t id : row.batch().ids) {
      if (id >= 0 && id < source.sequence().vocab_size) continue;
      throw DataError(fmt::format("sample {} contains token id {}, but the vocabulary size is {}",
                                  sample, id, source.sequence().vocab_size));
    }
  }
}

}  // namespace

Check token_files(std::function<const data::SampleSource&()> open) {
  const auto measure = [open = std::move(open)]() -> Figures {
    const data::SampleSource& source = open();
    look_into(source);
    return {{"fingerprint", source.fingerprint()}, {"tokens", source.total_tokens()}};
  };
  const auto judge = [](const std::vector<Figures>& by_rank) -> Judgment {
    Judgment judgment;
    const Majority found = majority(texts_of(by_rank, "fingerprint"));
    if (!found.others.empty()) {
      judgment.faults.push_back({found.others, "different token files than the other ranks"});
    }
    judgment.text = fmt::format("{} tokens, the same on all ranks",
                                grouped(by_rank.front()["tokens"].get<std::int64_t>()));
    return judgment;
  };
  return {"token files", measure, judge};
}

}  // namespace trireme::preflight
