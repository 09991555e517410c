#include "trainer/tools/verify/cause.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

namespace trireme::verify {
namespace {

using Values = std::vector<double>;
using Holder = Evidence::Holder;

bool close(double a, double b, double tolerance) {
  return std::fabs(a - b) <= tolerance;
}

// Values of the primary replicas, assembled.
Values primary_values(const Evidence& evidence) {
  Values values(evidence.expected.size(), std::nan(""));
  for (const Holder& holder : evidence.holders) {
    if (!holder.is_primary) continue;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!std::isnan(holder.owned[i])) values[i] = holder.owned[i];
    }
  }
  return values;
}

bool all_close(const Values& a, const Values& b, double tolerance) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!close(a[i], b[i], tolerance)) return false;
  }
  return true;
}

double dot(const Values& a, const Values& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

struct AxisOf {
  const char* name;
  std::int64_t size;
  std::vector<int RankCoordinates::*> coordinates;

  bool has(int RankCoordinates::*one) const { return std::ranges::count(coordinates, one) > 0; }
};

std::vector<AxisOf> axes_of(const LayoutSizes& layout) {
  std::vector<AxisOf> axes{{"tensor", layout.tensor, {&RankCoordinates::tensor}},
                           {"context", layout.context, {&RankCoordinates::context}},
                           {"data", layout.data, {&RankCoordinates::data}},
                           {"pipeline", layout.pipeline, {&RankCoordinates::pipeline}}};
  if (layout.data > 1 && layout.context > 1) {
    axes.push_back({"data' and 'context",
                    layout.data * layout.context,
                    {&RankCoordinates::data, &RankCoordinates::context}});
  }
  return axes;
}

// A reduction over an axis is missing if the values of its ranks add up to the expected value.
std::optional<Cause> missing_sum(const Evidence& evidence) {
  for (const AxisOf& axis : axes_of(evidence.layout)) {
    if (axis.size == 1) continue;
    std::map<std::array<int, 4>, std::vector<const Holder*>> groups;
    for (const Holder& holder : evidence.holders) {
      RankCoordinates others = holder.coordinates;
      for (const auto coordinate : axis.coordinates) others.*coordinate = 0;
      groups[{others.pipeline, others.data, others.tensor, others.context}].push_back(&holder);
    }
    bool terms = false, differs = false, fits = true;
    for (const auto& [place, holders] : groups) {
      for (std::size_t i = 0; i < evidence.expected.size(); ++i) {
        double sum = 0, least = INFINITY, most = -INFINITY;
        int owners = 0, held = 0;
        for (const Holder* holder : holders) {
          const bool owns = !std::isnan(holder->owned[i]);
          const double value = owns ? holder->owned[i] : holder->left_over[i];
          if (std::isnan(value)) continue;
          ++held;
          owners += owns;
          sum += value;
          least = std::min(least, value);
          most = std::max(most, value);
        }
        if (held < 2 || owners == 0) continue;
        terms = true;
        differs = differs || !close(least, most, evidence.tolerance);
        const double allowed = evidence.tolerance * static_cast<double>(held);
        fits = fits && close(sum, evidence.expected[i], allowed);
      }
    }
    if (!terms || !differs || !fits) continue;
    if (evidence.is_divided_expert() && axis.has(&RankCoordinates::data)) {
      return Cause{
          "missing-sum",
          fmt::format("the values of the {} replicas of this expert add up to the expected "
                      "value: the reduction over 'expert_shard' or 'expert_replicate' is "
                      "missing",
                      axis.size / evidence.layout.expert)};
    }
    return Cause{
        "missing-sum",
        fmt::format("the values of the {} ranks along axis '{}' add up to the expected value: the "
                    "reduction over '{}' is missing",
                    axis.size, axis.name, axis.name)};
  }
  return std::nullopt;
}

std::optional<Cause> constant_ratio(const Evidence& evidence, const Values& values) {
  const double squares = dot(evidence.expected, evidence.expected);
  if (squares == 0) return std::nullopt;
  const double ratio = dot(values, evidence.expected) / squares;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double allowed = evidence.tolerance * std::max(1.0, 2 * std::fabs(ratio));
    if (!close(values[i], ratio * evidence.expected[i], allowed)) return std::nullopt;
  }
  return cause_of_ratio(ratio, evidence.layout, 1e-3);
}

std::string listed(const std::vector<std::size_t>& numbers) {
  return fmt::format("{}{}", numbers.size() == 1 ? "micro-batch " : "micro-batches ",
                     fmt::join(numbers, ", "));
}

std::optional<Cause> other_micro_batches(const Evidence& evidence, const Values& values) {
  const auto found = combination_of(values, evidence.by_micro_batch, evidence.tolerance * 4);
  if (!found) return std::nullopt;
  constexpr double kRound = 0.02;
  std::vector<std::size_t> lost, doubled, other;
  for (std::size_t m = 0; m < found->size(); ++m) {
    const double times = (*found)[m];
    if (close(times, 1, kRound)) continue;
    (close(times, 0, kRound) ? lost : close(times, 2, kRound) ? doubled : other).push_back(m);
  }
  if (lost.empty() && doubled.empty() && other.empty()) return std::nullopt;
  std::string text = "the gradient sums the wrong micro-batches:";
  if (!lost.empty()) text += fmt::format(" {} missing;", listed(lost));
  if (!doubled.empty()) text += fmt::format(" {} counted twice;", listed(doubled));
  for (const std::size_t m : other) text += fmt::format(" {} {:.4g} times;", m, (*found)[m]);
  text.back() = '.';
  const auto whose = [&](std::size_t m) { return evidence.layout.data_rank_of.at(m); };
  const auto of_one_rank = [&](const std::vector<std::size_t>& set) {
    return !set.empty() && std::all_of(set.begin(), set.end(),
                                       [&](std::size_t m) { return whose(m) == whose(set[0]); });
  };
  const std::int64_t each =
      evidence.layout.micro_batches / std::max<std::int64_t>(evidence.layout.data, 1);
  const auto left = static_cast<std::int64_t>(found->size() - lost.size());
  if (evidence.is_divided_expert() && doubled.empty() && other.empty() &&
      left == each * evidence.layout.expert) {
    return Cause{"missing-sum",
                 text + fmt::format(" It contains those of one replica of this expert only, which "
                                    "sees the tokens of {} data ranks: the reduction over "
                                    "'expert_shard' or 'expert_replicate' is missing",
                                    evidence.layout.expert)};
  }
  if (evidence.layout.data > 1 && doubled.empty() && other.empty() && left == each) {
    return Cause{"missing-sum", text +
                                    " It contains those of one data rank only: the "
                                    "reduction over 'data' is missing"};
  }
  if (evidence.layout.data > 1 && of_one_rank(lost) &&
      static_cast<std::int64_t>(lost.size()) == each) {
    text += fmt::format(" These are all micro-batches of data rank {}", whose(lost[0]));
  }
  return Cause{doubled.empty() ? "lost-micro-batch" : "doubled-micro-batch", text};
}

// The right gradient, and that of the routers' losses some times more.
std::optional<Cause> other_router_losses(const Evidence& evidence, const Values& values) {
  if (evidence.of_router_losses.empty()) return std::nullopt;
  const auto found = combination_of(values, {evidence.expected, evidence.of_router_losses},
                                    evidence.tolerance * 4);
  constexpr double kRound = 0.02;
  if (!found || !close((*found)[0], 1, kRound) || close((*found)[1], 0, kRound)) {
    return std::nullopt;
  }
  const double times = 1 + (*found)[1];
  const LayoutSizes& layout = evidence.layout;
  const auto of_rank = static_cast<double>(layout.micro_batches) / static_cast<double>(layout.data);
  std::string text = fmt::format(
      "the gradient of the routers' losses is counted {:.4g} times, the rest is correct", times);
  if (close(times, of_rank, kRound * of_rank)) {
    text += ": this is the number of micro-batches per rank, over which they are not averaged";
  } else if (close(times, static_cast<double>(layout.micro_batches), kRound * times)) {
    text += ": this is the number of micro-batches per step, over which they are not averaged";
  }
  return Cause{"router-losses", text};
}

// Every element is correct on some rank.
std::optional<Cause> some_copies(const Evidence& evidence) {
  std::vector<int> wrong;
  std::vector<bool> is_right(evidence.expected.size(), false);
  for (const Holder& holder : evidence.holders) {
    bool all_right = true;
    for (std::size_t i = 0; i < evidence.expected.size(); ++i) {
      if (std::isnan(holder.owned[i])) continue;
      const bool right = close(holder.owned[i], evidence.expected[i], evidence.tolerance);
      is_right[i] = is_right[i] || right;
      all_right = all_right && right;
    }
    if (!all_right) wrong.push_back(holder.coordinates.rank);
  }
  const bool some = std::all_of(is_right.begin(), is_right.end(), [](bool right) { return right; });
  if (!some || wrong.empty()) return std::nullopt;
  return Cause{"copies-differ", fmt::format("correct on other ranks, wrong on rank{} {}",
                                            wrong.size() == 1 ? "" : "s", fmt::join(wrong, ", "))};
}

bool complete(const Values& values) {
  return std::none_of(values.begin(), values.end(), [](double v) { return std::isnan(v); });
}

}  // namespace

std::optional<std::vector<double>> combination_of(const std::vector<double>& values,
                                                  const std::vector<std::vector<double>>& terms,
                                                  double tolerance) {
  const std::size_t n = terms.size();
  if (n == 0 || n > values.size()) return std::nullopt;
  // Normal equations, solved by Gaussian elimination.
  std::vector<Values> rows(n, Values(n + 1));
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) rows[i][j] = dot(terms[i], terms[j]);
    rows[i][n] = dot(terms[i], values);
  }
  for (std::size_t step = 0; step < n; ++step) {
    std::size_t best = step;
    for (std::size_t i = step; i < n; ++i) {
      if (std::fabs(rows[i][step]) > std::fabs(rows[best][step])) best = i;
    }
    constexpr double kSingular = 1e-9;
    if (std::fabs(rows[best][step]) <= kSingular * dot(terms[step], terms[step])) {
      return std::nullopt;
    }
    std::swap(rows[step], rows[best]);
    for (std::size_t i = 0; i < n; ++i) {
      if (i == step) continue;
      const double factor = rows[i][step] / rows[step][step];
      for (std::size_t j = step; j <= n; ++j) rows[i][j] -= factor * rows[step][j];
    }
  }
  Values times(n);
  for (std::size_t i = 0; i < n; ++i) times[i] = rows[i][n] / rows[i][i];
  for (std::size_t i = 0; i < values.size(); ++i) {
    double sum = 0;
    for (std::size_t m = 0; m < n; ++m) sum += times[m] * terms[m][i];
    if (!close(sum, values[i], tolerance)) return std::nullopt;
  }
  return times;
}

std::optional<Cause> cause_of_gradient(const Evidence& evidence) {
  const Values values = primary_values(evidence);
  if (auto found = missing_sum(evidence)) return found;
  if (complete(values) && !all_close(values, evidence.expected, evidence.tolerance)) {
    if (auto found = constant_ratio(evidence, values)) return found;
    if (auto found = moved_rows(evidence, values)) return found;
    if (auto found = other_router_losses(evidence, values)) return found;
    if (auto found = other_micro_batches(evidence, values)) return found;
  }
  if (auto found = some_copies(evidence)) {
    found->text += ": the reduction did not reach all ranks";
    return found;
  }
  return std::nullopt;
}

std::optional<Cause> cause_of_moment(const Evidence& evidence) {
  const Values values = primary_values(evidence);
  if (auto copies = some_copies(evidence)) return copies;
  const double squares = dot(evidence.expected, evidence.expected);
  const double ratio = dot(values, evidence.expected) / std::max(squares, 1e-300);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double allowed = evidence.tolerance * std::max(1.0, 2 * std::fabs(ratio));
    if (!close(values[i], ratio * evidence.expected[i], allowed)) return std::nullopt;
  }
  return Cause{
      "clip",
      fmt::format("every element is {:.6g} times the expected value, but gradients and grad_norm "
                  "are correct: gradients are not clipped to training.max_norm, "
                  "or scaled twice",
                  ratio)};
}

// Decomposes the update into the expected update and the weights before it.
std::optional<Cause> other_update(const Evidence& evidence, const Values& values) {
  Values moved = values, right = evidence.expected;
  for (std::size_t i = 0; i < values.size(); ++i) {
    moved[i] -= evidence.before[i];
    right[i] -= evidence.before[i];
  }
  const auto found = combination_of(moved, {right, evidence.before}, evidence.update_tolerance);
  if (!found) return std::nullopt;
  const double times = (*found)[0], kept = (*found)[1];
  constexpr double kRound = 1e-2;
  // 1: no decay; -1: decayed twice
  const double decays = evidence.decay > 0 ? kept / evidence.decay : 0;
  if (!close(times, 1, kRound)) {
    return Cause{
        "learning-rate",
        fmt::format("the update is {:.4g} times the expected update: the learning rate is wrong",
                    times)};
  }
  if (close(decays, 0, kRound)) return std::nullopt;
  return Cause{
      "decay",
      close(decays, 1, kRound)
          ? "the update is correct except for weight decay, which is not applied"
          : fmt::format(
                "the update is correct except for weight decay, which is {:.4g} times the expected "
                "decay",
                1 - decays)};
}

std::optional<Cause> cause_of_weight(const Evidence& evidence) {
  const Values values = primary_values(evidence);
  auto copies = some_copies(evidence);
  if (complete(values) && !copies) {
    if (auto found = moved_rows(evidence, values)) return found;
    if (!evidence.before.empty() && all_close(values, evidence.before, evidence.tolerance)) {
      return Cause{"not-updated", "the weight is unchanged: the update was not applied"};
    }
    if (!evidence.before.empty()) {
      if (auto found = other_update(evidence, values)) return found;
    }
  }
  if (!copies) return std::nullopt;
  bool stale = !evidence.before.empty();
  for (const Holder& holder : evidence.holders) {
    for (std::size_t i = 0; i < evidence.before.size(); ++i) {
      const double value = holder.owned[i];
      stale =
          stale && (std::isnan(value) || close(value, evidence.expected[i], evidence.tolerance) ||
                    close(value, evidence.before[i], evidence.tolerance));
    }
  }
  copies->kind = stale ? "not-published" : copies->kind;
  copies->text += stale ? ", where it is unchanged: the update was not published to them"
                        : ": the replicas are inconsistent";
  return copies;
}

}  // namespace trireme::verify
