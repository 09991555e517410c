#include "trainer/tools/plan/show/search_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/base/human.h"
#include "trainer/config/layout_text.h"
#include "trainer/config/value_text.h"
#include "trainer/tools/plan/show/plan_json.h"

namespace trireme {
namespace {

// The largest part of the time lost against the best: "pipeline bubble +120 ms".
std::string lacks(const StepEstimate& best, const StepEstimate& other) {
  const auto more = [&](const TimePart& part) {
    return other.parts.*part.seconds - best.parts.*part.seconds;
  };
  const TimePart& most = *std::ranges::max_element(kTimeParts, {}, more);
  return more(most) > 0 ? fmt::format("{} +{}", most.name, human_duration(more(most))) : "";
}

}  // namespace

std::string search_text(const SearchResult& result, double available) {
  std::string text = fmt::format("{} layouts considered\n", result.considered);
  for (std::size_t i = 0; i < result.best.size(); ++i) {
    const RankedLayout& one = result.best[i];
    text += fmt::format("{:>3}. {:>9}  {:>10}  {}; micro-batch {}, recompute {}", i + 1,
                        human_duration(one.estimate.seconds),
                        human_bytes(static_cast<std::uint64_t>(one.bytes)),
                        layout_text(one.config.parallelism), one.config.training.local_batch_size,
                        name_of_value(one.config.activation_checkpoint.mode));
    if (i > 0) {
      const std::string why = lacks(result.best.front().estimate, one.estimate);
      text += fmt::format(" ({:+.1f} %{}{})",
                          100 * (one.estimate.seconds / result.best.front().estimate.seconds - 1),
                          why.empty() ? "" : ": ", why);
    }
    text += "\n";
  }
  text += fmt::format(
      "Each is the fastest layout of its shape: the degrees of pipeline, tensor, context and "
      "expert parallelism and the number of data ranks ({} shapes considered).\n",
      result.shapes);
  const RejectedLayouts& rejected = result.rejected;
  text += fmt::format("Rejected: {} violate a config rule", rejected.not_valid);
  if (rejected.too_large > 0) {
    text += fmt::format("; {} do not fit into {} (the closest needs {} more)", rejected.too_large,
                        human_bytes(static_cast<std::uint64_t>(available)),
                        human_bytes(static_cast<std::uint64_t>(rejected.least_missing)));
  }
  if (rejected.bounded > 0) {
    text += fmt::format(
        "; {} have a lower bound on the step time that is above the layouts listed or "
        "the one of their shape",
        rejected.bounded);
  }
  if (rejected.slower > 0) text += fmt::format("; {} are slower by prediction", rejected.slower);
  return text + ".\n";
}

nlohmann::ordered_json search_json(const SearchResult& result) {
  nlohmann::ordered_json best = nlohmann::ordered_json::array();
  for (const RankedLayout& one : result.best) {
    best.push_back({{"layout", layout_json(one.config.parallelism)},
                    {"micro_batch", one.config.training.local_batch_size},
                    {"recompute", name_of_value(one.config.activation_checkpoint.mode)},
                    {"step_seconds", one.estimate.seconds},
                    {"most_bytes", one.bytes}});
  }
  return {{"considered", result.considered},
          {"shapes", result.shapes},
          {"best_of_shapes", best},
          {"rejected",
           {{"not_valid", result.rejected.not_valid},
            {"too_large", result.rejected.too_large},
            {"bounded", result.rejected.bounded},
            {"slower", result.rejected.slower}}}};
}

}  // namespace trireme
