#include "tests/trainer/tools/plan/fitting.h"

#include <algorithm>
#include <cmath>
#include <future>
#include <map>

namespace trireme::published {
namespace {

// Of ln(predicted / measured): about that of a run.
constexpr double kSpread = 0.05;

class Fit {
 public:
  explicit Fit(const std::vector<const Run*>& runs) : runs_(runs) {
    std::map<std::string, double> counts;
    for (const Run* run : runs) ++counts[run->group];
    for (const Run* run : runs) weights_.push_back(1 / std::sqrt(counts[run->group]) / kSpread);
  }
  Fitted improved(Fitted from) const;

 private:
  using Vector = std::vector<double>;
  Vector log_errors(const Fitted& fitted) const;
  double badness(const Fitted& fitted, const Vector& errors) const;
  std::vector<Vector> slopes(const Fitted& fitted, const Vector& errors) const;
  Vector direction(const Fitted& fitted, const Vector& errors,
                   const std::vector<Vector>& slopes) const;

  const std::vector<const Run*>& runs_;
  Vector weights_;
};

double away(const Fitted& fitted, const Parameter& parameter) {
  return std::log(fitted.*parameter.value / parameter.expected) / parameter.width;
}

double rounded(double error) {
  return std::sqrt(error * error + 1e-4);  // near 0
}

Fit::Vector Fit::log_errors(const Fitted& fitted) const {
  const Profiles profiles = profiles_of(fitted);
  Vector errors;
  for (const Run* run : runs_) {
    errors.push_back(std::log(seconds(*run, fitted, profiles) / run->measured));
  }
  return errors;
}

double Fit::badness(const Fitted& fitted, const Vector& errors) const {
  double sum = 0;
  for (std::size_t i = 0; i < errors.size(); ++i) sum += weights_[i] * rounded(errors[i]);
  for (const Parameter& parameter : parameters()) {
    sum += 0.5 * away(fitted, parameter) * away(fitted, parameter);
  }
  return sum;
}

// Solves a symmetric positive definite system by elimination.
std::vector<double> solved(std::vector<std::vector<double>> matrix, std::vector<double> right) {
  const std::size_t n = right.size();
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t row = i + 1; row < n; ++row) {
      const double factor = matrix[row][i] / matrix[i][i];
      for (std::size_t j = i; j < n; ++j) matrix[row][j] -= factor * matrix[i][j];
      right[row] -= factor * right[i];
    }
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t j = i + 1; j < n; ++j) right[i] -= matrix[i][j] * right[j];
    right[i] /= matrix[i][i];
  }
  return right;
}

// Of the errors, by the logarithm of each number.
std::vector<Fit::Vector> Fit::slopes(const Fitted& fitted, const Vector& errors) const {
  constexpr double kStep = 0.01;
  std::vector<Vector> all;
  for (const Parameter& parameter : parameters()) {
    Fitted moved = fitted;
    moved.*parameter.value *= std::exp(kStep);
    all.push_back(log_errors(moved));
    for (std::size_t i = 0; i < errors.size(); ++i) {
      all.back()[i] = (all.back()[i] - errors[i]) / kStep;
    }
  }
  return all;
}

// Gauss and Newton's step of the logarithms of the numbers, with weights that make squares of
// errors as large as the errors.
Fit::Vector Fit::direction(const Fitted& fitted, const Vector& errors,
                           const std::vector<Vector>& slopes) const {
  const std::size_t n = parameters().size();
  std::vector<Vector> matrix(n, Vector(n));
  Vector right(n);
  for (std::size_t a = 0; a < n; ++a) {
    const Parameter& parameter = parameters()[a];
    matrix[a][a] = 1 / (parameter.width * parameter.width);
    right[a] = -away(fitted, parameter) / parameter.width;
    for (std::size_t i = 0; i < errors.size(); ++i) {
      const double weight = weights_[i] / rounded(errors[i]);
      right[a] -= weight * slopes[a][i] * errors[i];
      for (std::size_t b = 0; b < n; ++b) matrix[a][b] += weight * slopes[a][i] * slopes[b][i];
    }
  }
  return solved(std::move(matrix), std::move(right));
}

Fitted Fit::improved(Fitted from) const {
  Vector errors = log_errors(from);
  double best = badness(from, errors);
  std::vector<Vector> slopes;
  for (int round = 0; round < 60; ++round) {
    const bool is_new = round % 5 == 0;  // they change little
    if (is_new) slopes = this->slopes(from, errors);
    const Vector step = direction(from, errors, slopes);
    const double before = best;
    for (double part = 1; part > 0.01 && best == before; part /= 2) {
      Fitted moved = from;
      for (std::size_t i = 0; i < step.size(); ++i) {
        const Parameter& parameter = parameters()[i];
        double& value = moved.*parameter.value;
        value = std::clamp(value * std::exp(part * std::clamp(step[i], -0.3, 0.3)), parameter.least,
                           parameter.most);
      }
      Vector now = log_errors(moved);
      const double found = badness(moved, now);
      if (found >= before) continue;
      best = found;
      from = moved;
      errors = std::move(now);
    }
    if (is_new && best > before - 1e-5) break;
  }
  return from;
}

Fitted fit_without(const std::vector<Run>& runs, const std::string& source) {
  std::vector<const Run*> used;
  for (const Run& run : runs) {
    if (run.reason.empty() && run.group != source && !is_unseen(run.group)) used.push_back(&run);
  }
  Fitted expected;
  for (const Parameter& parameter : parameters()) expected.*parameter.value = parameter.expected;
  return Fit(used).improved(expected);
}

LeftOut left_out(const std::vector<Run>& runs, const Source& source) {
  LeftOut left{.source = source,
               .fitted = source.is_unseen() ? fitted() : fit_without(runs, source.name),
               .runs = {},
               .errors = {}};
  const Profiles profiles = profiles_of(left.fitted);
  for (const Run& run : runs) {
    if (run.group != source.name || !run.reason.empty()) continue;
    left.runs.push_back(&run);
    left.errors.push_back(seconds(run, left.fitted, profiles) / run.measured - 1);
  }
  return left;
}

}  // namespace

const std::vector<Parameter>& parameters() {
  static const std::vector<Parameter> kParameters{
      {&Fitted::hopper_joules, "Hopper, J per FLOP in 16 bits", 0.73e-12, 1.8e-12, 1.0e-12, 0.3,
       "energy of a matmul at the full clock above the 122 W of an idle H100; at the least the "
       "clock "
       "never falls (794 TFLOP/s with 700 W)"},
      {&Fitted::float8_joules, "Hopper, J per FLOP in 8 bits", 0.41e-12, 0.9e-12, 0.5e-12, 0.3,
       "the same (1403 TFLOP/s)"},
      {&Fitted::half_depth, "half depth", 10, 400, 60, 0.7,
       "depth at which a matmul reaches half of what large ones do: filling the tiles' pipelines"},
      {&Fitted::streamed, "streamed", 0.5, 0.93, 0.8, 0.1,
       "share of the memory's bandwidth that memory-bound ops reach; a copy reaches 0.9"},
      {&Fitted::nvlink, "NVLink", 0.5, 0.9, 0.78, 0.1,
       "share of the link's bandwidth that large messages reach"},
      {&Fitted::network, "network", 0.3, 0.97, 0.8, 0.2, "the same between nodes"},
      {&Fitted::straggling, "straggling", 0.0005, 0.05, 0.01, 0.7,
       "share of the step by which each doubling of the nodes prolongs it: all wait for the "
       "slowest"},
      {&Fitted::occupied, "occupied", 0.02, 0.6, 0.15, 0.5,
       "share of a message's time by which it prolongs what it overlaps: it takes multiprocessors, "
       "memory and power"},
      {&Fitted::step_seconds, "s per step", 0.001, 0.2, 0.02, 0.7,
       "between steps of programs in Python: data, logging, the optimizer's loops"},
      {&Fitted::slice_seconds, "s per slice", 3e-6, 1e-4, 1.5e-5, 0.7,
       "for the host to cut a slice of a parameter and to launch its copy, where it does that one "
       "by "
       "one (nanotron's ZeRO-1)"}};
  return kParameters;
}

Fitted fit(const std::vector<Run>& runs) {
  return fit_without(runs, "");
}

std::vector<LeftOut> leave_one_out(const std::vector<Run>& runs) {
  std::vector<std::future<LeftOut>> each;
  for (const Source& source : sources()) {
    each.push_back(
        std::async(std::launch::async, [&runs, source] { return left_out(runs, source); }));
  }
  std::vector<LeftOut> all;
  for (std::future<LeftOut>& one : each) all.push_back(one.get());
  return all;
}

std::vector<double> errors_of(const std::vector<LeftOut>& all,
                              const std::function<bool(const Source&)>& is_meant) {
  std::vector<double> errors;
  for (const LeftOut& left : all) {
    if (!is_meant(left.source)) continue;
    errors.insert(errors.end(), left.errors.begin(), left.errors.end());
  }
  return errors;
}

TimeBand band_of(const std::vector<LeftOut>& all) {
  std::vector<double> longer;
  for (const double error : errors_of(all, [](const Source& one) { return !one.is_later; })) {
    longer.push_back(1 / (1 + error));
  }
  return {percentile(longer, 0.05), percentile(longer, 0.95)};
}

}  // namespace trireme::published
