#include "trainer/loop/step_trace.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/base/error.h"
#include "model/base/median.h"
#include "model/tensor/host_tensor.h"

namespace trireme {
namespace {

double reduced(Communicator& group, double value, Reduce how) {
  double values[] = {value};
  Stream stream;
  group.all_reduce(stream, host_tensor(std::span(values)), how);
  return values[0];
}

std::optional<double> median_if_any(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  return median(values);
}

TraceFile::Details details_of(const PipelineObserver::Event& event) {
  TraceFile::Details details{{"stage", event.action.stage},
                             {"micro_batch", event.action.micro_batch}};
  if (event.peer >= 0) details["pipeline_peer"] = event.peer;
  return details;
}

}  // namespace

StepTrace::StepTrace(const std::filesystem::path& run_folder, const RankGroups& groups,
                     std::int64_t steps)
    : groups_(groups),
      file_(run_folder / fmt::format("trace-{}.json", groups.all->rank()), groups.all->rank(),
            fmt::format("rank {} (pipeline {}, tensor {})", groups.all->rank(),
                        groups.pp_forward->rank(), groups.tensor->rank())),
      left_(steps) {}

void StepTrace::begin_step(std::int64_t step, Stream& stream) {
  in_step_ = true;
  step_ = step;
  step_start_ = file_.now();
  walk_ = {};
  open_.clear();
  ran_.clear();
  waited_.clear();
  queued_.clear();
  marks_used_ = 0;
  if (!stream.on_cuda()) return;
  if (!std::exchange(device_is_named_, true)) file_.name_device(say(stream.device()));
  mark(stream);
  device_start_ = file_.now();
}

StepTrace::Mark StepTrace::mark(Stream& stream) {
  if (marks_used_ == marks_.size())
    marks_.emplace_back(stream.device(), trireme::Event::Use::kTiming);
  marks_[marks_used_].record(stream);
  return marks_used_++;
}

void StepTrace::read_device() {
  const auto at = [&](Mark mark) {
    const double nanoseconds = 1e6 * marks_[mark].milliseconds_since(marks_.front());
    return device_start_ + static_cast<std::int64_t>(nanoseconds);
  };
  for (const Queued& work : queued_) {
    const std::int64_t start = at(work.begin), end = at(work.end);
    file_.device_span("compute", work.name, start, end, work.details);
    walk_.busy += end - start;
    walk_.end = std::max(walk_.end, end);
  }
}

StepTrace::Shares StepTrace::end_step() {
  read_device();
  file_.span("step", say("step ", step_), step_start_, file_.now());
  in_step_ = false;
  file_.flush();
  --left_;
  const Shares shares{.bubble = bubble(), .hidden = hidden()};
  if (!std::exchange(counts_, true)) return {};
  if (shares.bubble) bubbles_.push_back(*shares.bubble);
  if (shares.hidden) hiddens_.push_back(*shares.hidden);
  return shares;
}

std::optional<double> StepTrace::bubble() const {
  const int ranks = groups_.pp_forward->size();
  if (ranks == 1) return std::nullopt;
  const double longest =
      reduced(*groups_.pp_forward, static_cast<double>(walk_.end - walk_.start.value_or(walk_.end)),
              Reduce::kMax);
  const double busy = reduced(*groups_.pp_forward, static_cast<double>(walk_.busy), Reduce::kSum);
  const double bubble = longest > 0 ? 1 - busy / (longest * ranks) : 0;
  return reduced(*groups_.all, bubble, Reduce::kSum) / groups_.all->size();
}

std::optional<double> StepTrace::hidden() const {
  std::int64_t total = 0, exposed = 0;
  for (const Transfer::Interval& ran : ran_) {
    total += ran.end - ran.begin;
    for (const Transfer::Interval& waited : waited_) {
      exposed += std::max<std::int64_t>(
          0, std::min(ran.end, waited.end) - std::max(ran.begin, waited.begin));
    }
  }
  const double all = reduced(*groups_.all, static_cast<double>(total), Reduce::kSum);
  const double waited = reduced(*groups_.all, static_cast<double>(exposed), Reduce::kSum);
  if (all <= 0) return std::nullopt;
  return 1 - waited / all;
}

StepTrace::Shares StepTrace::shares() const {
  return {.bubble = median_if_any(bubbles_), .hidden = median_if_any(hiddens_)};
}

void StepTrace::begin(Stream& stream, const PipelineEvent& event) {
  if (!in_step_) return;
  const std::int64_t at = file_.now();
  if (!walk_.start) walk_.start = at;
  const bool timed = event.what == What::kAction && stream.on_cuda();
  open_[{event.what, say(event.action)}] = {at, timed ? mark(stream) : 0};
}

void StepTrace::end(Stream& stream, const PipelineEvent& event) {
  if (!in_step_) return;
  const std::int64_t at = walk_.end = file_.now();
  const std::string action = say(event.action);
  const auto begun = open_.find({event.what, action});
  if (begun == open_.end()) return;
  const auto [start, mark_of_start] = begun->second;
  open_.erase(begun);
  switch (event.what) {
    case What::kAction:
      if (stream.on_cuda()) {
        file_.span("queueing", action, start, at, details_of(event));
        queued_.push_back({action, details_of(event), mark_of_start, mark(stream)});
        break;
      }
      walk_.busy += at - start;
      file_.span("compute", action, start, at, details_of(event));
      break;
    case What::kWait:
      file_.span("idle", "wait for " + action, start, at, details_of(event));
      break;
    case What::kReceive:
      file_.beside("communication", "receive for " + action, start, at, details_of(event));
      break;
    case What::kSend:
      file_.beside("communication", "send of " + action, start, at, details_of(event));
      break;
  }
}

void StepTrace::begin(const Call& call) {
  if (in_step_ && call.peer < 0) call_start_ = file_.now();
}

void StepTrace::end(const Call& call) {
  if (!in_step_ || call.peer >= 0) return;
  file_.span("communication", say(name_of(call.operation), " in ", call.group), call_start_,
             file_.now(), {{"bytes", call.bytes}});
}

void StepTrace::ran_beside(const Call& call, Transfer::Interval ran, Transfer::Interval waited) {
  if (!in_step_ || ran.end == 0) return;  // device time is unknown here
  ran_.push_back(ran);
  waited_.push_back(waited);
  const std::string name = say(name_of(call.operation), " in ", call.group);
  file_.beside("communication", name, file_.at(ran.begin), file_.at(ran.end),
               {{"bytes", call.bytes}});
  file_.span("communication", "wait for " + name, file_.at(waited.begin), file_.at(waited.end));
}

}  // namespace trireme
