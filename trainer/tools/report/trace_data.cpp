#include "trainer/tools/report/trace_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "model/base/error.h"
#include "model/base/file.h"
#include "model/base/median.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Spans as in the file, in milliseconds of its clock.
struct FoundSpan {
  TracedSpan span;
  enum class Row { kMain, kDevice, kOverlapped } row = Row::kMain;
};
struct FoundStep {
  std::int64_t step = 0;
  double start = 0, end = 0;
};
struct FoundTrace {
  std::string name;
  std::vector<FoundSpan> spans;
  std::vector<FoundStep> steps;
};

double milliseconds(const json& event, const char* key) {
  return event.value(key, 0.0) / 1000;
}

class TraceReader {
 public:
  // Reads a truncated file up to its last complete line.
  FoundTrace read(std::string_view text) {
    while (!text.empty()) {
      const std::size_t newline = text.find('\n');
      std::string_view line = text.substr(0, newline);
      text.remove_prefix(newline == std::string_view::npos ? text.size() : newline + 1);
      if (line.ends_with(',')) line.remove_suffix(1);
      const json event = json::parse(line, nullptr, false);
      if (event.is_object() && event.contains("ph") && event["ph"].is_string()) add(event);
    }
    return std::move(found_);
  }

 private:
  void add(const json& event) {
    const std::string phase = event["ph"];
    const std::string name = event.value("name", "");
    if (phase == "M" && name == "process_name") {
      found_.name = event.value("/args/name"_json_pointer, "");
    } else if (phase == "X") {
      add_span(event, name);
    } else if (phase == "b") {
      begun_[event.value("id", "")] = event;
    } else if (phase == "e") {
      const auto begin = begun_.find(event.value("id", ""));
      if (begin == begun_.end()) return;
      found_.spans.push_back({{begin->second.value("name", ""), begin->second.value("cat", ""),
                               milliseconds(begin->second, "ts"), milliseconds(event, "ts")},
                              FoundSpan::Row::kOverlapped});
      begun_.erase(begin);
    }
  }

  void add_span(const json& event, const std::string& name) {
    constexpr std::string_view kStep = "step ";
    const double start = milliseconds(event, "ts");
    const double end = start + milliseconds(event, "dur");
    std::int64_t step = 0;
    if (name.starts_with(kStep) &&
        std::from_chars(name.data() + kStep.size(), name.data() + name.size(), step).ec ==
            std::errc()) {
      found_.steps.push_back({step, start, end});
      return;
    }
    const bool on_device = event.value("tid", 0) != event.value("pid", 0);
    found_.spans.push_back({{name, event.value("cat", ""), start, end},
                            on_device ? FoundSpan::Row::kDevice : FoundSpan::Row::kMain});
  }

  FoundTrace found_;
  std::map<std::string, json> begun_;
};

const FoundStep* median_step(const FoundTrace& trace) {
  std::vector<const FoundStep*> steps;
  for (const FoundStep& step : trace.steps) steps.push_back(&step);
  // The first step may include library selection.
  if (steps.size() > 1) steps.erase(steps.begin());
  std::sort(steps.begin(), steps.end(), [](const FoundStep* a, const FoundStep* b) {
    return a->end - a->start < b->end - b->start;
  });
  return steps.empty() ? nullptr : steps[steps.size() / 2];
}

bool inside(const TracedSpan& span, const FoundStep& step) {
  return span.start >= step.start && span.start < step.end;
}

void measure(const FoundTrace& trace, TracedRank& rank) {
  std::vector<double> lengths;
  std::vector<double> works;
  std::vector<double> waits;
  for (std::size_t i = trace.steps.size() > 1 ? 1 : 0; i < trace.steps.size(); ++i) {
    double on_host = 0;
    double on_device = 0;
    double idle = 0;
    for (const FoundSpan& found : trace.spans) {
      if (!inside(found.span, trace.steps[i])) continue;
      const double length = found.span.end - found.span.start;
      if (found.span.category == "idle") idle += length;
      if (found.span.category != "compute") continue;
      (found.row == FoundSpan::Row::kDevice ? on_device : on_host) += length;
    }
    lengths.push_back(trace.steps[i].end - trace.steps[i].start);
    works.push_back(on_device > 0 ? on_device : on_host);
    waits.push_back(idle);
  }
  rank.step_ms = median(lengths);
  rank.work_ms = median(works);
  rank.wait_ms = median(waits);
}

std::optional<TracedRank> picture(const FoundTrace& trace, int number, std::int64_t step) {
  const auto found = std::find_if(trace.steps.rbegin(), trace.steps.rend(),
                                  [&](const FoundStep& one) { return one.step == step; });
  if (found == trace.steps.rend()) return std::nullopt;
  TracedRank rank{
      .rank = number, .name = trace.name, .main = {}, .device = {}, .overlapped = {}, .parts = {}};
  if (rank.name.empty()) rank.name = fmt::format("rank {}", number);
  for (const FoundSpan& one : trace.spans) {
    if (!inside(one.span, *found)) continue;
    TracedSpan span = one.span;
    span.start -= found->start;
    span.end = std::min(span.end, found->end) - found->start;
    auto& lane = one.row == FoundSpan::Row::kDevice       ? rank.device
                 : one.row == FoundSpan::Row::kOverlapped ? rank.overlapped
                 : span.category == "step"                ? rank.parts
                                                          : rank.main;
    lane.push_back(std::move(span));
  }
  measure(trace, rank);
  return rank;
}

// "trace-3.json" -> 3
std::optional<int> rank_of(const std::string& name) {
  constexpr std::string_view kPrefix = "trace-";
  constexpr std::string_view kSuffix = ".json";
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return std::nullopt;
  int rank = 0;
  const char* end = name.data() + name.size() - kSuffix.size();
  const auto [rest, why] = std::from_chars(name.data() + kPrefix.size(), end, rank);
  return why == std::errc() && rest == end ? std::optional(rank) : std::nullopt;
}

FoundTrace read_trace(const fs::path& path) {
  constexpr std::uint64_t kLargest = 64u << 20;
  const MappedFile file(path);
  const std::size_t size = std::min<std::size_t>(file.bytes().size(), kLargest);
  return TraceReader().read({reinterpret_cast<const char*>(file.bytes().data()), size});
}

}  // namespace

std::optional<TracedStep> read_traces(const fs::path& run_folder) {
  std::map<int, fs::path> paths;
  std::error_code why;
  for (fs::directory_iterator at(run_folder, why), end; !why && at != end; at.increment(why)) {
    if (const auto rank = rank_of(at->path().filename().string())) paths[*rank] = at->path();
  }
  TracedStep traced;
  for (const auto& [rank, path] : paths) {
    if (traced.ranks.size() == TracedStep::kMostRanks) {
      ++traced.left_out;
      continue;
    }
    try {
      const FoundTrace trace = read_trace(path);
      if (traced.ranks.empty()) {
        const FoundStep* chosen = median_step(trace);
        if (chosen == nullptr) return std::nullopt;
        traced.step = chosen->step;
      }
      const auto found = picture(trace, rank, traced.step);
      if (!found) continue;
      traced.ranks.push_back(*found);
      for (const auto* lane : {&found->main, &found->device, &found->parts}) {
        for (const TracedSpan& span : *lane)
          traced.length_ms = std::max(traced.length_ms, span.end);
      }
    } catch (const Error&) {
      continue;  // skips files that vanished or are unreadable
    } catch (const json::exception&) {
      continue;
    }
  }
  if (traced.ranks.empty()) return std::nullopt;
  return traced;
}

}  // namespace trireme
