#include "trainer/tools/audit/windows.h"

#include <xxhash.h>

#include <algorithm>

#include "model/base/error.h"

namespace trireme {

std::string samples_text(data::SampleRange range) {
  if (range.end == range.first + 1) return say("sample ", range.first);
  return say("samples ", range.first, " to ", range.end - 1);
}

data::LeftOut left_out_inside(const LedgerStep& step) {
  return data::LeftOut(step.left_out).inside(step.samples);
}

std::string complaint_of_window(const LedgerStep& step, std::uint64_t end) {
  const data::SampleRange& samples = step.samples;
  const data::LeftOut left_out(step.left_out);
  if (samples.first < end) {
    return say("it trains on ", samples_text({samples.first, std::min(end, samples.end)}),
               " again: the previous step ended with sample ", end - 1);
  }
  if (left_out != left_out.inside({end, samples.end})) {
    return "it excludes samples that are not between the previous step and its own last sample";
  }
  std::uint64_t at = end;  // first sample not accounted for
  const data::LeftOut before = left_out.inside({end, samples.first});
  for (const data::SampleRange& range : before.ranges()) {
    if (range.first > at) break;
    at = range.end;
  }
  if (at < samples.first) {
    return say("it begins at sample ", samples.first, ", but samples from ", at,
               " on are neither trained on nor excluded");
  }
  const data::LeftOut inside = left_out_inside(step);
  const std::uint64_t trained = samples.end - samples.first - inside.count();
  if (trained != static_cast<std::uint64_t>(step.sequences)) {
    return say("its window (", samples_text(samples), ") has ", trained, " sequences, not ",
               step.sequences);
  }
  return "";
}

std::string stages_of(const LedgerBegin& begin) {
  const auto found = begin.computation.find("data.stages");
  if (found == begin.computation.end() || found->second == "[]") return "";
  return found->second;
}

std::uint64_t key_of_samples(const LedgerStep& step) {
  std::vector<std::uint64_t> bounds{step.samples.first, step.samples.end};
  const data::LeftOut left_out = left_out_inside(step);
  for (const data::SampleRange& range : left_out.ranges()) {
    bounds.insert(bounds.end(), {range.first, range.end});
  }
  return XXH3_64bits(bounds.data(), bounds.size() * sizeof(std::uint64_t));
}

ExclusionReasons::ExclusionReasons(const std::vector<LeftOutRecord>& events) : events_(events) {
  std::stable_sort(events_.begin(), events_.end(),
                   [](const auto& a, const auto& b) { return a.step < b.step; });
}

void ExclusionReasons::add(const std::vector<data::SampleRange>& skip) {
  for (const data::SampleRange& range : skip) skip_.add(range);
}

std::string ExclusionReasons::complaint(const LedgerStep& step) const {
  if (step.left_out.empty()) return "";
  data::LeftOut given = skip_;
  auto event = std::lower_bound(events_.begin(), events_.end(), step.step,
                                [](const auto& some, std::int64_t at) { return some.step < at; });
  for (; event != events_.end() && event->step == step.step; ++event) given.add(event->range);
  for (const data::SampleRange& range : step.left_out) {
    const data::LeftOut why = given.inside(range);
    if (why.count() == range.end - range.first) continue;
    return say(samples_text(range),
               " are excluded, but no data.skip and no skip or rollback event in "
               "events.jsonl explains it");
  }
  return "";
}

}  // namespace trireme
