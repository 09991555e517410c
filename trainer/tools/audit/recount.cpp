#include "trainer/tools/audit/recount.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "data/token_batch.h"
#include "model/base/error.h"
#include "trainer/tools/audit/windows.h"

namespace trireme {
namespace {

template <class Use>
void for_each_sample(const LedgerStep& step, const Use& use) {
  const data::LeftOut left_out = left_out_inside(step);
  std::uint64_t at = step.samples.first;
  for (const data::SampleRange& range : left_out.ranges()) {
    for (; at < range.first; ++at) use(at);
    at = range.end;
  }
  for (; at < step.samples.end; ++at) use(at);
}

// True if the size of the window matches the step and is plausible.
bool is_sound(const LedgerStep& step) {
  constexpr std::int64_t kMostSequences = std::int64_t{1} << 28;
  if (step.sequences > kMostSequences) return false;
  const std::uint64_t all = step.samples.end - step.samples.first;
  return all - left_out_inside(step).count() == static_cast<std::uint64_t>(step.sequences);
}

class Hasher {
 public:
  explicit Hasher(const data::SampleSource& source) : source_(source) {}
  std::uint64_t operator()(const LedgerStep& step) {
    std::uint64_t hash = 0;
    for_each_sample(step, [&](std::uint64_t sample) {
      const std::int64_t seq_len = source_.seq_len(sample);
      if (!row_ || row_->batch().seq_len != seq_len) row_.emplace(seq_len);
      source_.fill(sample, row_->batch());
      hash += data::sample_hash(sample, row_->batch().ids, row_->batch().targets);
      ++samples;
    });
    return hash;
  }
  std::uint64_t samples = 0;

 private:
  const data::SampleSource& source_;
  std::optional<data::SequenceBuffer> row_;  // of the last sample's length
};

void find_windows_used_twice(const Lineage& lineage, const data::SampleSource& source,
                             Findings& findings) {
  std::map<std::pair<std::size_t, std::uint64_t>, std::vector<bool>> used;  // by source and epoch
  for (const TakenStep& taken : lineage.steps) {
    if (!is_sound(*taken.step)) continue;
    for_each_sample(*taken.step, [&](std::uint64_t sample) {
      const data::Origin from = source.origin(sample);
      auto& windows = used[{from.source, from.epoch}];
      windows.resize(source.windows(from.source));
      if (windows[from.window]) {
        findings.push_back({kLedgerFile, taken.number, taken.step->step,
                            say("sample ", sample, " is window ", from.window, " of ",
                                source.source(from.source).prefix.string(),
                                ", which is used twice in epoch ", from.epoch)});
      }
      windows[from.window] = true;
    });
  }
}

// Checks that the training order takes the samples of each source consecutively, excluded ones
// included, up to the last step.
std::vector<std::uint64_t> follow_sources(const Lineage& lineage, const data::SampleSource& source,
                                          Findings& findings) {
  std::vector<std::uint64_t> taken_of(source.sources(), 0);
  std::uint64_t at = 0;
  for (const TakenStep& taken : lineage.steps) {
    if (!is_sound(*taken.step)) continue;
    for (; at < taken.step->samples.end; ++at) {
      const data::Origin from = source.origin(at);
      std::uint64_t& next = taken_of[from.source];
      if (from.index != next) {
        findings.push_back(
            {kLedgerFile, taken.number, taken.step->step,
             say("sample ", at, " is sample ", from.index, " of ",
                 source.source(from.source).prefix.string(), ", expected sample ", next)});
      }
      next = from.index + 1;
    }
  }
  return taken_of;
}

// End of the samples of the incarnation that begins at line `at` of the ledger.
std::uint64_t end_of_incarnation(const Records& records, std::size_t at) {
  std::uint64_t end = 0;
  for (++at; at < records.ledger.size(); ++at) {
    const auto* step = std::get_if<LedgerStep>(&records.ledger[at].line);
    if (step == nullptr) break;
    end = std::max(end, step->samples.end);
  }
  return end;
}

// data.stages of the last incarnation.
std::string last_stages(const Records& records) {
  std::string stages;
  for (const LedgerRecord& record : records.ledger) {
    if (const auto* begin = std::get_if<LedgerBegin>(&record.line)) stages = stages_of(*begin);
  }
  return stages;
}

}  // namespace

Recount recount(const Records& records, const Lineage& lineage, const data::SampleSource& source,
                Findings& findings) {
  Hasher hash(source);
  std::unordered_map<std::uint64_t, std::uint64_t> hashes;  // by key_of_samples
  const std::string stages = last_stages(records);
  bool same_stages = true;  // whether this incarnation has the last data.stages
  for (std::size_t i = 0; i < records.ledger.size(); ++i) {
    const LedgerRecord& record = records.ledger[i];
    const auto find = [&](std::int64_t step, std::string text) {
      findings.push_back({kLedgerFile, record.number, step, std::move(text)});
    };
    if (const auto* begin = std::get_if<LedgerBegin>(&record.line)) {
      same_stages = stages_of(*begin) == stages;
      if (!source.agrees(begin->data, end_of_incarnation(records, i))) {
        find(0, say("the run was trained on data ", begin->data, ", but the token files are now ",
                    source.fingerprint()));
      }
      continue;
    }
    const auto& step = std::get<LedgerStep>(record.line);
    const TakenStep* counts = lineage.find(step.step);
    // Undone steps under other data.stages had other samples with these numbers.
    if (!same_stages && (counts == nullptr || counts->step != &step)) continue;
    if (!is_sound(step)) {
      find(step.step,
           "its samples cannot be read again: their number does not match its sequences");
      continue;
    }
    const auto [known, is_new] = hashes.try_emplace(key_of_samples(step), 0);
    if (is_new) known->second = hash(step);
    if (known->second != step.hash) {
      find(step.step,
           say("the token files have changed: other tokens for ", samples_text(step.samples)));
    }
  }
  find_windows_used_twice(lineage, source, findings);
  Recount recount{.read = hash.samples, .of_source = {}};
  const std::vector<std::uint64_t> taken = follow_sources(lineage, source, findings);
  for (std::size_t i = 0; i < taken.size(); ++i) {
    const std::int64_t seq_len = source.seq_len_of(i);
    const bool is_first = seq_len == source.sequence().seq_len;
    recount.of_source.emplace_back(
        source.source(i).prefix.filename().string() +
            (is_first ? "" : say(" in sequences of ", seq_len, " tokens")),
        taken[i]);
  }
  return recount;
}

}  // namespace trireme
