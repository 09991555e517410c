#include "tests/trainer/tools/plan/fitting.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace trireme::published {
namespace {

double log_error(const Run& run, const Fitted& fitted, const Profiles& profiles) {
  return std::log(seconds(run, fitted, profiles) / run.measured);
}

class Fit {
 public:
  explicit Fit(const std::vector<const Run*>& runs) : runs_(runs) {
    std::map<std::string, double> counts;
    for (const Run* run : runs) ++counts[run->group];
    for (const Run* run : runs) weights_.push_back(1 / std::sqrt(counts[run->group]));
  }
  Fitted improved(Fitted from) const;

 private:
  double badness(const Fitted& fitted) const;

  const std::vector<const Run*>& runs_;
  std::vector<double> weights_;
};

double Fit::badness(const Fitted& fitted) const {
  const Profiles profiles = profiles_of(fitted);
  double sum = 0;
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    const double off = log_error(*runs_[i], fitted, profiles);
    sum += weights_[i] * std::sqrt(off * off + 1e-4) / 0.05;
  }
  for (const Parameter& parameter : parameters()) {
    const double away = std::log(fitted.*parameter.value / parameter.expected) / parameter.width;
    sum += 0.5 * away * away;
  }
  return sum;
}

Fitted Fit::improved(Fitted from) const {
  double best = badness(from);
  for (double step = 0.1; step > 0.004;) {
    const double before = best;
    for (const Parameter& parameter : parameters()) {
      double& value = from.*parameter.value;
      for (const double factor : {1 + step, 1 / (1 + step)}) {
        const double was = value;
        value = std::clamp(was * factor, parameter.least, parameter.most);
        const double now = badness(from);
        if (now < best) {
          best = now;
          break;
        }
        value = was;
      }
    }
    if (best > before - 1e-3) step /= 2;
  }
  return from;
}

}  // namespace

const std::vector<Parameter>& parameters() {
  static const std::vector<Parameter> kParameters{
      {&Fitted::hopper_joules, "hopper_joules", 0.88e-12, 2.2e-12, 1.2e-12, 0.3, ""},
      {&Fitted::float8_joules, "float8_joules", 0.5e-12, 1.1e-12, 0.6e-12, 0.3, ""},
      {&Fitted::half_depth, "half_depth", 10, 400, 60, 0.7, ""},
      {&Fitted::streamed, "streamed", 0.5, 0.93, 0.8, 0.1, ""},
      {&Fitted::nvlink, "nvlink", 0.5, 0.9, 0.78, 0.1, ""},
      {&Fitted::network, "network", 0.3, 0.97, 0.8, 0.2, ""},
      {&Fitted::straggling, "straggling", 0.0005, 0.05, 0.01, 0.7, ""},
      {&Fitted::occupied, "occupied", 0.02, 0.6, 0.15, 0.5, ""},
      {&Fitted::step_seconds, "step_seconds", 0.001, 0.2, 0.02, 0.7, ""}};
  return kParameters;
}

Fitted fit(const std::vector<const Run*>& runs, Fitted from) {
  return Fit(runs).improved(from);
}

std::vector<LeftOut> leave_one_out(const std::vector<Run>& runs, const Fitted& from) {
  std::vector<LeftOut> all;
  for (const Source& source : sources()) {
    LeftOut left{.source = source.name, .fitted = from, .runs = {}, .errors = {}};
    std::vector<const Run*> others;
    for (const Run& run : runs) {
      if (!run.reason.empty()) continue;
      if (run.group == source.name) {
        left.runs.push_back(&run);
        continue;
      }
      const auto of = std::find_if(sources().begin(), sources().end(),
                                   [&](const Source& each) { return each.name == run.group; });
      if (!of->is_unseen) others.push_back(&run);
    }
    if (!source.is_unseen) left.fitted = fit(others, from);
    const Profiles profiles = profiles_of(left.fitted);
    for (const Run* run : left.runs) {
      left.errors.push_back(seconds(*run, left.fitted, profiles) / run->measured - 1);
    }
    all.push_back(std::move(left));
  }
  return all;
}

std::string text_of(const Fitted& fitted) {
  std::string text;
  for (const Parameter& parameter : parameters()) {
    text += fmt::format("{}{} {:.4g}", text.empty() ? "" : ", ", parameter.name,
                        fitted.*parameter.value);
  }
  return text;
}

}  // namespace trireme::published
