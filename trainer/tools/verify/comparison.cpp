#include "trainer/tools/verify/comparison.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "model/tensor/host_tensor.h"
#include "trainer/tools/verify/elements.h"

namespace trireme::verify {
namespace {

constexpr std::int64_t kPiece = std::int64_t{1} << 18;  // elements per chunk

// Calls visit(local offset, element number, count) for the contiguous parts of `held` within
// elements [first, end).
template <class Visit>
void for_each_range_of(const LocalRange& held, const Tensors& tensors, std::int64_t first,
                       std::int64_t end, const Visit& visit) {
  const Tensors::Entry& tensor = tensors[held.tensor];
  if (tensor.first >= end || tensor.first + tensor.shape.count() <= first) return;
  for_each_range(*held.param, held.first, held.data.count(),
                 [&](std::int64_t here, std::int64_t logical, std::int64_t count) {
                   const std::int64_t from = std::max(first, tensor.first + logical);
                   const std::int64_t to = std::min(end, tensor.first + logical + count);
                   if (from < to) visit(here + from - tensor.first - logical, from, to - from);
                 });
}

std::vector<double> read(const Subject& subject, const LocalRange& held, std::int64_t here,
                         std::int64_t count, Quantity quantity) {
  std::vector<double> values = read_elements(subject.stream(), held.data.slice(here, count));
  if (quantity == Quantity::kGradient && subject.loss_scale() != 1) {
    for (double& value : values) value /= subject.loss_scale();
  }
  return values;
}

double allowed(const Comparison::Target& of, const Tolerances& tolerances, double expected,
               double scale) {
  if (of.quantity == Quantity::kGradient) return tolerances.gradient * scale;
  if (of.quantity == Quantity::kMoment) return tolerances.update * scale;
  const double off = tolerances.weight(expected, of.learning_rate, of.updates);
  if (of.quantity == Quantity::kMaster) return off;
  return off + std::max(tolerances.rounding * (std::fabs(expected) + off), tolerances.underflow);
}

void note(TensorResult& result, std::int64_t index, int rank, double value, double expected,
          double most) {
  ++result.elements;
  result.cross += value * expected;
  result.expected_squares += expected * expected;
  const double difference = std::fabs(value - expected);
  if (difference == 0) return;
  result.difference =
      std::isnan(difference) ? difference : std::fmax(result.difference, difference);
  const double excess = difference / std::max(most, 1e-300);
  if (!(excess <= result.excess)) result.excess = excess;
  if (difference <= most) return;
  if (result.wrong++ > 0) return;
  result.index = index;
  result.rank = rank;
  result.value = value;
  result.expected = expected;
}

}  // namespace

bool any_differs(const std::vector<TensorResult>& results) {
  return std::any_of(results.begin(), results.end(),
                     [](const TensorResult& result) { return result.differs(); });
}

void add_primary(const Subject& subject, const std::vector<LocalRange>& held,
                 const Tensors& tensors, std::int64_t first, std::span<double> into) {
  const auto end = first + static_cast<std::int64_t>(into.size());
  for (const LocalRange& run : held) {
    if (!run.is_primary) continue;
    for_each_range_of(
        run, tensors, first, end, [&](std::int64_t here, std::int64_t number, std::int64_t count) {
          const auto values = read_elements(subject.stream(), run.data.slice(here, count));
          double* const to = into.data() + (number - first);
          for (std::size_t i = 0; i < values.size(); ++i) to[i] += values[i];
        });
  }
}

std::vector<TensorResult> Comparison::compare(const Target& of, const Tolerances& tolerances) {
  const bool of_gradients = of.quantity == Quantity::kGradient;
  std::vector<TensorResult> results(tensors_.size());
  Target stored = of;
  if (of.quantity == Quantity::kValue) stored.quantity = Quantity::kMaster;
  scan(stored, results);
  share_scales(results);
  std::vector<LocalRange> expected, held;
  if (reference_.takes_part()) {
    expected = held_by(reference_, tensors_, stored.quantity, of.moment);
  }
  if (subject_.takes_part()) held = held_by(subject_, tensors_, of.quantity, of.moment);
  Stream stream;
  for (std::int64_t first = 0; first < tensors_.elements(); first += kPiece) {
    const std::int64_t end = std::min(first + kPiece, tensors_.elements());
    std::vector<double> whole(end - first);
    if (reference_.takes_part()) {
      add_primary(reference_, expected, tensors_, first, whole);
      for (double& value : whole) value /= of_gradients ? reference_.loss_scale() : 1;
    }
    ranks_.all_reduce(stream, host_tensor(std::span(whole)), Reduce::kSum);
    for (const LocalRange& run : held) {
      TensorResult& result = results[run.tensor];
      for_each_range_of(
          run, tensors_, first, end,
          [&](std::int64_t here, std::int64_t number, std::int64_t count) {
            const std::vector<double> values = read(subject_, run, here, count, of.quantity);
            for (std::size_t i = 0; i < values.size(); ++i) {
              const double right = whole[number - first + i];
              note(result, number + static_cast<std::int64_t>(i) - tensors_[run.tensor].first,
                   ranks_.rank(), values[i], right, allowed(of, tolerances, right, result.scale));
            }
          });
    }
  }
  join(results);
  if (of_gradients && !tolerances.exact) find_scaled(tolerances.ratio, results);
  return results;
}

// Skips weights with differing elements, for which the ratio adds nothing.
void Comparison::find_scaled(double most, std::vector<TensorResult>& results) const {
  std::set<std::size_t> differ;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i].wrong > 0) differ.insert(tensors_[i].weight);
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    results[i].scaled =
        !differ.contains(tensors_[i].weight) && !(std::fabs(results[i].ratio() - 1) <= most);
  }
}

void Comparison::hand_over_gradients() {
  std::vector<LocalRange> from, to;
  if (subject_.takes_part()) from = held_by(subject_, tensors_, Quantity::kGradient);
  if (reference_.takes_part()) to = held_by(reference_, tensors_, Quantity::kGradient);
  const double scale = reference_.loss_scale() / subject_.loss_scale();
  Stream stream;
  for (std::int64_t first = 0; first < tensors_.elements(); first += kPiece) {
    const std::int64_t end = std::min(first + kPiece, tensors_.elements());
    std::vector<double> whole(end - first);
    if (subject_.takes_part()) add_primary(subject_, from, tensors_, first, whole);
    ranks_.all_reduce(stream, host_tensor(std::span(whole)), Reduce::kSum);
    for (const LocalRange& run : to) {
      for_each_range_of(run, tensors_, first, end,
                        [&](std::int64_t here, std::int64_t number, std::int64_t count) {
                          std::vector<float> values;
                          for (std::int64_t i = 0; i < count; ++i) {
                            values.push_back(static_cast<float>(whole[number - first + i] * scale));
                          }
                          write_elements(reference_.stream(), run.data.slice(here, count), values);
                        });
    }
  }
}

// Largest value and sum of squares of this rank's primary elements of the reference.
void Comparison::scan(const Target& of, std::vector<TensorResult>& results) const {
  if (!reference_.takes_part()) return;
  for (const LocalRange& run : held_by(reference_, tensors_, of.quantity, of.moment)) {
    if (!run.is_primary) continue;
    TensorResult& result = results[run.tensor];
    for (std::int64_t at = 0; at < run.data.count(); at += kPiece) {
      const std::int64_t count = std::min(kPiece, run.data.count() - at);
      for (const double value : read(reference_, run, at, count, of.quantity)) {
        result.scale = std::fmax(result.scale, std::fabs(value));
        result.squares += value * value;
      }
    }
  }
}

void Comparison::share_scales(std::vector<TensorResult>& results) {
  std::vector<double> largest, squares;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::size_t weight = tensors_[i].weight;
    if (largest.size() <= weight) largest.resize(weight + 1);
    largest[weight] = std::fmax(largest[weight], results[i].scale);
    squares.push_back(results[i].squares);
  }
  Stream stream;
  ranks_.all_reduce(stream, host_tensor(std::span(largest)), Reduce::kMax);
  ranks_.all_reduce(stream, host_tensor(std::span(squares)), Reduce::kSum);
  for (std::size_t i = 0; i < results.size(); ++i) {
    results[i].scale = largest[tensors_[i].weight];
    results[i].squares = squares[i];
  }
}

// Merges the results of all ranks.
void Comparison::join(std::vector<TensorResult>& results) {
  constexpr std::size_t kNumbers = 10;
  std::vector<double> own;
  for (const TensorResult& r : results) {
    own.insert(own.end(),
               {r.difference, r.excess, static_cast<double>(r.elements),
                static_cast<double>(r.wrong), static_cast<double>(r.index),
                static_cast<double>(r.rank), r.value, r.expected, r.cross, r.expected_squares});
  }
  std::vector<double> all(own.size() * ranks_.size());
  Stream stream;
  ranks_.all_gather(stream, host_tensor(std::span(all)), host_tensor(std::span(own)));
  for (std::size_t i = 0; i < results.size(); ++i) {
    TensorResult& joined = results[i];
    joined = {.scale = joined.scale, .squares = joined.squares};
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks_.size()); ++rank) {
      const double* const from = all.data() + rank * own.size() + i * kNumbers;
      const auto wrong = static_cast<std::int64_t>(from[3]);
      const auto index = static_cast<std::int64_t>(from[4]);
      if (!(from[0] <= joined.difference)) joined.difference = from[0];
      if (!(from[1] <= joined.excess)) joined.excess = from[1];
      joined.elements += static_cast<std::int64_t>(from[2]);
      joined.wrong += wrong;
      joined.cross += from[8];
      joined.expected_squares += from[9];
      if (wrong == 0 || (joined.index >= 0 && joined.index <= index)) continue;
      joined.index = index;
      joined.rank = static_cast<int>(from[5]);
      joined.value = from[6];
      joined.expected = from[7];
    }
  }
  std::map<std::size_t, std::pair<double, double>> of_weight;
  for (std::size_t i = 0; i < results.size(); ++i) {
    auto& [cross, squares] = of_weight[tensors_[i].weight];
    cross += results[i].cross;
    squares += results[i].expected_squares;
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    std::tie(results[i].cross, results[i].expected_squares) = of_weight[tensors_[i].weight];
  }
}

}  // namespace trireme::verify
