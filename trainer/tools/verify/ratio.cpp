#include "trainer/tools/verify/ratio.h"

#include <fmt/format.h>

#include <cmath>

namespace trireme::verify {
namespace {

std::string fitting_sizes(const Sharing& s, double size, double precision) {
  std::string names;
  const auto offer = [&](const std::string& name, double value) {
    if (value > 1 && std::fabs(value - size) <= precision * size)
      names += (names.empty() ? "" : ", or ") + name;
  };
  const auto axis = [&](const char* name, std::int64_t extent) {
    offer(fmt::format("the size of the axis '{}'", name), static_cast<double>(extent));
  };
  axis("tensor", s.tensor);
  axis("data", s.data);
  axis("pipeline", s.pipeline);
  offer("the number of micro-batches of a step", static_cast<double>(s.micro_batches));
  offer("the number of micro-batches of a rank",
        static_cast<double>(s.micro_batches) / static_cast<double>(s.data));
  return names;
}

// Of a ratio that is (n - 1) / n, or n / (n - 1).
std::optional<Cause> one_too_many(double ratio, const Sharing& sharing, double precision) {
  const double less = ratio < 1 ? ratio : 1 / ratio;
  const double of_rank =
      static_cast<double>(sharing.micro_batches) / static_cast<double>(sharing.data);
  for (const double count : {of_rank, static_cast<double>(sharing.micro_batches)}) {
    if (count < 2 || std::fabs(less - (count - 1) / count) > precision) continue;
    return Cause{ratio < 1 ? "divided-by-one-more" : "divided-by-one-less",
                 fmt::format("every element is {:.4g} times as large, which is {} of the {} "
                             "micro-batches of a {}: one of them is left out, or the loss is "
                             "divided by one too {}",
                             ratio, ratio < 1 ? "one less" : "one more", count,
                             count == of_rank ? "rank" : "step", ratio < 1 ? "many" : "few")};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Cause> cause_of_ratio(double ratio, const Sharing& sharing, double precision) {
  if (std::fabs(ratio) <= 1e-6) {
    return Cause{"no-gradient",
                 "it is zero everywhere: nothing has added to it, or all of it was "
                 "overwritten"};
  }
  if (std::fabs(ratio - 1) <= precision) return std::nullopt;
  if (const std::string fits = fitting_sizes(sharing, ratio, precision); !fits.empty()) {
    return Cause{"counted-twice",
                 fmt::format("every element is {:.6g} times as large, which is {}: a sum is made "
                             "once too often, or a mean is taken for a sum",
                             ratio, fits)};
  }
  if (const std::string fits = fitting_sizes(sharing, 1 / ratio, precision); !fits.empty()) {
    return Cause{"divided-twice",
                 fmt::format("every element is 1/{:.6g} of what it should be, which is {}: it is "
                             "divided once too often, or but one rank's equal part is there",
                             1 / ratio, fits)};
  }
  if (auto found = one_too_many(ratio, sharing, precision)) return found;
  return Cause{"scaled", fmt::format("every element is {:.6g} times as large, the size of no axis: "
                                     "a factor, such as the number of tokens, is another",
                                     ratio)};
}

}  // namespace trireme::verify
