#include "trainer/tools/verify/cause.h"

#include <fmt/format.h>

#include <cmath>

namespace trireme::verify {
namespace {

std::string fitting_sizes(const LayoutSizes& s, double size, double precision) {
  std::string names;
  const auto offer = [&](const std::string& name, double value) {
    if (value > 1 && std::fabs(value - size) <= precision * size)
      names += (names.empty() ? "" : ", or ") + name;
  };
  const auto axis = [&](const char* name, std::int64_t extent) {
    offer(fmt::format("the size of the axis '{}'", name), static_cast<double>(extent));
  };
  axis("tensor", s.tensor);
  axis("context", s.context);
  axis("data", s.data);
  if (s.context > 1 && s.data > 1) axis("data' times 'context", s.data * s.context);
  axis("pipeline", s.pipeline);
  offer("the number of micro-batches per step", static_cast<double>(s.micro_batches));
  offer("the number of micro-batches per rank",
        static_cast<double>(s.micro_batches) / static_cast<double>(s.data));
  return names;
}

// Ratios (n - 1) / n and n / (n - 1).
std::optional<Cause> one_too_many(double ratio, const LayoutSizes& layout, double precision) {
  const double less = ratio < 1 ? ratio : 1 / ratio;
  const double of_rank =
      static_cast<double>(layout.micro_batches) / static_cast<double>(layout.data);
  for (const double count : {of_rank, static_cast<double>(layout.micro_batches)}) {
    if (count < 2 || std::fabs(less - (count - 1) / count) > precision) continue;
    return Cause{
        ratio < 1 ? "divided-by-one-more" : "divided-by-one-less",
        fmt::format(
            "every element is {:.4g} times the expected value, which matches one micro-batch "
            "too {} of the {} micro-batches of a {}: {}",
            ratio, ratio < 1 ? "few" : "many", count, count == of_rank ? "rank" : "step",
            ratio < 1 ? "one is missing, or the loss is divided by one too many"
                      : "the loss is divided by one too few")};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Cause> cause_of_ratio(double ratio, const LayoutSizes& layout, double precision) {
  if (std::fabs(ratio) <= 1e-6) {
    return Cause{"no-gradient",
                 "all elements are zero: nothing was accumulated, or the gradient was overwritten"};
  }
  if (std::fabs(ratio - 1) <= precision) return std::nullopt;
  if (const std::string fits = fitting_sizes(layout, ratio, precision); !fits.empty()) {
    return Cause{
        "counted-twice",
        fmt::format("every element is {:.6g} times the expected value, which is {}: a reduction "
                    "is repeated, or a sum is used instead of a mean",
                    ratio, fits)};
  }
  if (const std::string fits = fitting_sizes(layout, 1 / ratio, precision); !fits.empty()) {
    return Cause{
        "divided-twice",
        fmt::format("every element is 1/{:.6g} of the expected value, which is {}: it is divided "
                    "once too often, or contains the term of one rank only",
                    1 / ratio, fits)};
  }
  if (auto found = one_too_many(ratio, layout, precision)) return found;
  return Cause{"scaled",
               fmt::format("every element is {:.6g} times the expected value, which matches "
                           "no axis size: a scale factor, such as the number of tokens, is "
                           "wrong",
                           ratio)};
}

}  // namespace trireme::verify
