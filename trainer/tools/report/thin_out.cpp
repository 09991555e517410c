#include "trainer/tools/report/thin_out.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "model/base/error.h"

namespace trireme {
namespace {

// Adds the telling points of each run of equal bucket numbers.
void pick(const Series& series, const std::function<std::int64_t(std::size_t)>& bucket,
          std::vector<std::size_t>& picked) {
  const std::vector<double>& values = series.values;
  for (std::size_t begin = 0; begin < values.size();) {
    constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
    std::size_t low = kNone;
    std::size_t high = kNone;
    std::size_t broken = kNone;
    std::size_t end = begin;
    for (; end < values.size() && bucket(end) == bucket(begin); ++end) {
      if (!std::isfinite(values[end])) {
        broken = end;
      } else {
        if (low == kNone || values[end] < values[low]) low = end;
        if (high == kNone || values[end] > values[high]) high = end;
      }
    }
    for (const std::size_t one : {low, high, broken}) {
      if (one != kNone) picked.push_back(one);
    }
    begin = end;
  }
}

ThinCurve take(const Series& series, const std::vector<std::size_t>& picked) {
  ThinCurve curve;
  std::size_t next = 0;
  for (const std::size_t at : picked) {
    double sum = 0;
    int count = 0;
    for (; next <= at; ++next) {
      if (!std::isfinite(series.values[next])) continue;
      sum += series.values[next];
      ++count;
    }
    curve.steps.push_back(series.steps[at]);
    curve.values.push_back(series.values[at]);
    curve.means.push_back(count > 0 ? sum / count : std::numeric_limits<double>::quiet_NaN());
  }
  return curve;
}

}  // namespace

ThinCurve thin_out(const Series& series, std::size_t points) {
  constexpr std::size_t kFewest = 16;
  require(points >= kFewest, "a curve needs at least ", kFewest, " points, not ", points);
  std::vector<std::size_t> picked;
  if (series.steps.size() <= points) {
    for (std::size_t i = 0; i < series.steps.size(); ++i) picked.push_back(i);
    return take(series, picked);
  }
  // Three points a bucket and the two ends; two thirds of the buckets are even in steps.
  const std::size_t buckets = (points - 2) / 3;
  const std::size_t even_buckets = buckets * 2 / 3;
  const std::size_t log_buckets = buckets / 3;
  const auto even = static_cast<double>(even_buckets);
  const auto logarithmic = static_cast<double>(log_buckets);
  const auto first = static_cast<double>(series.steps.front());
  const double span = static_cast<double>(series.steps.back()) - first + 1;
  const auto since_first = [&](std::size_t i) {
    return static_cast<double>(series.steps[i]) - first;
  };
  pick(
      series,
      [&](std::size_t i) { return static_cast<std::int64_t>(even * since_first(i) / span); },
      picked);
  const double decades = std::log1p(span);
  pick(
      series,
      [&](std::size_t i) {
        return static_cast<std::int64_t>(logarithmic * std::log1p(since_first(i)) / decades);
      },
      picked);
  picked.push_back(0);
  picked.push_back(series.steps.size() - 1);
  std::sort(picked.begin(), picked.end());
  picked.erase(std::unique(picked.begin(), picked.end()), picked.end());
  return take(series, picked);
}

}  // namespace trireme
