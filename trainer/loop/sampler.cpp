#include "trainer/loop/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "model/base/philox.h"

namespace trireme {

std::int32_t sample(const std::vector<float>& logits, const Sampling& how, std::int64_t position) {
  const auto likeliest = std::max_element(logits.begin(), logits.end());
  if (how.temperature <= 0) return static_cast<std::int32_t>(likeliest - logits.begin());

  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  if (how.top_k > 0 && how.top_k < static_cast<std::int64_t>(ids.size())) {
    const auto above = [&](std::int32_t a, std::int32_t b) {
      const float x = logits[static_cast<std::size_t>(a)];
      const float y = logits[static_cast<std::size_t>(b)];
      return x != y ? x > y : a < b;
    };
    std::nth_element(ids.begin(), ids.begin() + how.top_k, ids.end(), above);
    ids.resize(static_cast<std::size_t>(how.top_k));
    std::sort(ids.begin(), ids.end());
  }
  std::vector<double> sums;
  double sum = 0;
  for (const std::int32_t id : ids) {
    sum += std::exp((logits[static_cast<std::size_t>(id)] - *likeliest) / how.temperature);
    sums.push_back(sum);
  }
  const auto words = philox(random_key(how.seed, "generate"), static_cast<std::uint64_t>(position));
  const double draw = sum * (words[0] / 4294967296.0);
  const auto chosen = std::upper_bound(sums.begin(), sums.end() - 1, draw);
  return ids[static_cast<std::size_t>(chosen - sums.begin())];
}

}  // namespace trireme
