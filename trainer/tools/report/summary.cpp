#include "trainer/tools/report/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>

#include "model/base/human.h"
#include "model/base/json.h"
#include "trainer/tools/report/event.h"
#include "trainer/tools/report/goodput.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

// Detail `key` of the last start or resume that has it, if it is a T.
template <class T>
std::optional<T> begin_detail(const RunData& run, const char* key) {
  for (auto event = run.events.rbegin(); event != run.events.rend(); ++event) {
    if (is_begin(*event) && event->contains(key)) return json_at<T>(*event, key);
  }
  return std::nullopt;
}

std::optional<double> last_finite(const Series& series) {
  for (auto value = series.values.rbegin(); value != series.values.rend(); ++value) {
    if (std::isfinite(*value)) return *value;
  }
  return std::nullopt;
}

double sum_of(const Series& series) {
  double sum = 0;
  for (const double value : series.values) sum += std::isfinite(value) ? value : 0;
  return sum;
}

class Tiles {
 public:
  explicit Tiles(const RunData& run) : run_(run) {}

  std::vector<Tile> all() {
    shape();
    quality();
    cost();
    return std::move(tiles_);
  }

 private:
  void add(std::string value, std::string label) {
    tiles_.push_back({std::move(value), std::move(label)});
  }

  void shape() {
    if (const auto count = begin_detail<double>(run_, "parameters")) {
      add(human_count(*count), "parameters");
    }
    const Series& tokens = run_.series("tokens");
    const Series& loss = run_.series("loss");
    if (!loss.empty()) {
      const auto total = begin_detail<std::int64_t>(run_, "total_steps");
      add(grouped(loss.steps.back()),
          total ? fmt::format("steps of {}", grouped(*total)) : "steps");
    }
    if (const auto seen = last_finite(tokens)) add(human_count(*seen), "tokens trained on");
  }

  void quality() {
    const Series& loss = run_.series("loss");
    if (!loss.empty()) {
      const double value = loss.values.back();
      add(std::isfinite(value) ? fmt::format("{:.4f}", value) : "not finite", "last training loss");
    }
    best(validation_curve(run_, "validation_loss", "loss"), "validation loss");
    best(validation_curve(run_, "validation_bits_per_byte", "bits_per_byte"), "bits per byte");
  }

  void best(const Series& series, std::string_view what) {
    std::optional<std::size_t> at;
    for (std::size_t i = 0; i < series.values.size(); ++i) {
      if (std::isfinite(series.values[i]) && (!at || series.values[i] < series.values[*at])) at = i;
    }
    if (!at) return;
    add(fmt::format("{:.4f}", series.values[*at]),
        fmt::format("best {}, step {}", what, grouped(series.steps[*at])));
  }

  void cost() {
    const Series& seconds = run_.series("step_seconds");
    const Series& speed = run_.series("tokens_per_second");
    const Series& mfu = run_.series("mfu");
    const double spent = sum_of(seconds);
    if (spent > 0) {
      add(human_duration(spent), "in training steps");
      // Time-weighted means.
      if (const auto mean = per_second(speed, seconds)) {
        add(human_count(*mean), "tokens per second, mean");
      }
      const auto mean_mfu = per_second(mfu, seconds);
      if (mean_mfu && *mean_mfu > 0) {
        add(fmt::format("{:.1f}%", 100 * *mean_mfu), "model FLOPs utilization (MFU)");
      }
    }
    const double memory = std::max(largest(run_.series("memory_peak_bytes")),
                                   largest(run_.series("process_peak_bytes")));
    if (memory > 0)
      add(human_bytes(static_cast<std::uint64_t>(std::min(memory, 9e18))),
          "peak memory, largest rank");
    const auto resumes =
        std::count_if(run_.events.begin(), run_.events.end(),
                      [](const Json& event) { return text_of(event, "event") == "resume"; });
    if (resumes > 0) add(grouped(resumes), resumes == 1 ? "resume" : "resumes");
    if (const auto found = goodput(run_); found && (found->failures > 0 || resumes > 0)) {
      add(fmt::format("{:.1f}%", 100 * found->fraction()), "goodput: useful steps / wall time");
    }
    if (const auto ranks = begin_detail<std::int64_t>(run_, "ranks")) {
      const auto device = begin_detail<std::string>(run_, "device");
      add(grouped(*ranks),
          fmt::format("{}{}", *ranks == 1 ? "rank" : "ranks", device ? " on " + *device : ""));
    }
  }

  static std::optional<double> per_second(const Series& rate, const Series& seconds) {
    double sum = 0;
    double time = 0;
    std::size_t other = 0;
    for (std::size_t i = 0; i < rate.steps.size(); ++i) {
      while (other < seconds.steps.size() && seconds.steps[other] < rate.steps[i]) ++other;
      if (other == seconds.steps.size()) break;
      if (seconds.steps[other] != rate.steps[i] || !std::isfinite(rate.values[i]) ||
          !std::isfinite(seconds.values[other])) {
        continue;
      }
      sum += rate.values[i] * seconds.values[other];
      time += seconds.values[other];
    }
    return time > 0 ? std::optional(sum / time) : std::nullopt;
  }

  const RunData& run_;
  std::vector<Tile> tiles_;
};

}  // namespace

std::vector<Tile> summary_tiles(const RunData& run) {
  return Tiles(run).all();
}

RunState run_state(const RunData& run) {
  if (run.is_running) return {"running", RunState::Kind::kOpen};
  for (auto event = run.events.rbegin(); event != run.events.rend(); ++event) {
    const std::string name = text_of(*event, "event");
    if (is_begin(*event)) return {"no end recorded", RunState::Kind::kOpen};
    if (name == "failure") return {"failed", RunState::Kind::kBad};
    if (name != "stop") continue;
    const std::string reason = text_of(*event, "reason");
    const std::int64_t exit_code = json_at<std::int64_t>(*event, "exit_code").value_or(0);
    constexpr int kRequeue = 75;
    if (exit_code == 0) return {reason.empty() ? "finished" : reason, RunState::Kind::kGood};
    return {fmt::format("stopped: {}", reason.empty() ? fmt::format("exit {}", exit_code) : reason),
            exit_code == kRequeue ? RunState::Kind::kOpen : RunState::Kind::kBad};
  }
  return {"no end recorded", RunState::Kind::kOpen};
}

Series validation_curve(const RunData& run, const std::string& metric, const std::string& detail) {
  const Series& measured = run.series(metric);
  if (!measured.empty()) return measured;
  std::map<std::int64_t, double> by_step;  // a later validation of a step replaces the earlier
  for (const Json& event : run.events) {
    if (text_of(event, "event") != "validation") continue;
    const auto step = json_at<std::int64_t>(event, "step");
    const auto value = json_at<double>(event, detail.c_str());
    if (step && value) by_step[*step] = *value;
  }
  Series series;
  for (const auto& [step, value] : by_step) {
    series.steps.push_back(step);
    series.values.push_back(value);
  }
  return series;
}

}  // namespace trireme
