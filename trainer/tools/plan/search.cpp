#include "trainer/tools/plan/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "model/base/human.h"
#include "parallel/pipeline/registry.h"
#include "trainer/config/layout_text.h"
#include "trainer/config/rules.h"
#include "trainer/config/value_text.h"
#include "trainer/tools/plan/layout_plan.h"
#include "trainer/tools/plan/layouts.h"
#include "trainer/tools/plan/run_plan.h"
#include "trainer/tools/plan/state_theory.h"

namespace trireme {
namespace {

constexpr std::size_t kBest = 10;

// A layout with a lower bound of its step time.
struct Candidate {
  RunConfig config;
  double bound = 0;
};

class Search {
 public:
  Search(const LoadedConfig& loaded, int ranks, const DeviceProfile& profile, Device device,
         double expert_imbalance)
      : loaded_(loaded),
        ranks_(ranks),
        profile_(profile),
        device_(device),
        expert_imbalance_(expert_imbalance),
        available_(usable_bytes(profile, device, ranks)),
        model_(plan_model(loaded.config)),
        theory_(state_theory(loaded.config, static_cast<double>(model_.checkpoint_bytes) /
                                                static_cast<double>(model_.parameters))) {}

  SearchResult run() {
    each_layout(loaded_.config, ranks_, profile_.network.ranks_per_node,
                [&](const RunConfig& config) { consider(config); });
    std::sort(candidates_.begin(), candidates_.end(),
              [](const Candidate& a, const Candidate& b) { return a.bound < b.bound; });
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      if (candidates_[i].bound >= slowest_of_best()) {
        result_.rejected.bounded += static_cast<std::int64_t>(candidates_.size() - i);
        break;
      }
      rank(candidates_[i].config);
    }
    return std::move(result_);
  }

 private:
  void consider(const RunConfig& config) {
    ++result_.considered;
    Complaints complaints;
    check_rules({.config = config, .source = loaded_.source, .origins = {}}, complaints,
                Purpose::kPlanning);
    if (!complaints.empty()) {
      ++result_.rejected.not_valid;
      return;
    }
    // Model state of a rank by theory, averaged over the pipeline.
    const double state = theory_.bytes(config.model, config.parallelism);
    if (state > available_) return too_large(state);
    candidates_.push_back({config, least_seconds(config)});
  }

  // All matmuls at the peak reached by large ones, plus the pipeline bubble.
  double least_seconds(const RunConfig& config) const {
    const ParallelismConfig& layout = config.parallelism;
    const double again = config.activation_checkpoint.mode == Recompute::kFull ? 4.0 / 3 : 1;
    const double flops = (again * model_.useful.matmul + model_.useful.attention_causal) *
                         static_cast<double>(config.training.global_batch_size);
    const ProductRate& rate = profile_.rate(workload_of(config).numbers());
    const double work = flops / (ranks_ * rate.peak * std::max(rate.product, rate.flash));
    const double divisor =
        find_schedule(layout.schedule)->bubble_divisor * static_cast<double>(layout.virtual_stages);
    const double waits = (static_cast<double>(layout.pipeline) - 1) / divisor;
    return work * (1 + waits / static_cast<double>(micro_batches_per_step(config)));
  }

  // True if a layout that does not fit differs only by a smaller micro-batch or by more
  // recomputation.
  bool is_larger_than_one_that_is_too_large(const RunConfig& config) const {
    const auto found = too_large_.find(kind_of(config));
    if (found == too_large_.end()) return false;
    return std::any_of(found->second.begin(), found->second.end(), [&](const auto& other) {
      return config.training.local_batch_size >= other.first && kept_of(config) >= other.second;
    });
  }

  using Context = std::pair<std::int64_t, ContextMethod>;
  using Kind = std::tuple<std::int64_t, bool, Context, std::int64_t, std::string, std::int64_t,
                          std::int64_t, std::int64_t>;
  using OpsKey = std::tuple<std::int64_t, bool, Context, std::int64_t, std::int64_t, std::int64_t,
                            std::int64_t, bool, Recompute>;
  static Context context_of(const ParallelismConfig& p) { return {p.context, p.context_method}; }
  static Kind kind_of(const RunConfig& config) {
    const ParallelismConfig& p = config.parallelism;
    return {p.tensor,   p.sequence,       context_of(p), p.pipeline,
            p.schedule, p.virtual_stages, p.zero,        p.expert};
  }
  // Rank of the recomputation mode by activation memory.
  static int kept_of(const RunConfig& config) {
    return -static_cast<int>(config.activation_checkpoint.mode);
  }

  void rank(const RunConfig& config) {
    if (is_larger_than_one_that_is_too_large(config)) {
      ++result_.rejected.too_large;
      return;
    }
    // The time first, which takes a few layers; memory takes all.
    const Workload work = workload_of(config, expert_imbalance_);
    StepEstimate estimate = estimate_step(work, ops_of(work), profile_);
    if (estimate.seconds >= slowest_of_best()) {
      ++result_.rejected.slower;
      return;
    }
    // The first pipeline rank holds the most micro-batches in flight.
    const double least = bytes_of(with_few_micro_batches(config), 0);
    if (least > available_) {
      too_large_[kind_of(config)].emplace_back(config.training.local_batch_size, kept_of(config));
      return too_large(least);
    }
    double most = 0;
    for (int place = 0; place < config.parallelism.pipeline; ++place) {
      most = std::max(most, bytes_of(config, place));
      if (most > available_) return too_large(most);
    }
    const auto at = std::upper_bound(
        result_.best.begin(), result_.best.end(), estimate.seconds,
        [](double seconds, const RankedLayout& other) { return seconds < other.estimate.seconds; });
    result_.best.insert(at, RankedLayout{config, std::move(estimate), most});
    if (result_.best.size() <= kBest) return;
    result_.best.pop_back();
    ++result_.rejected.slower;
  }

  // Layouts that differ by their schedules have the same ops.
  const StepOps& ops_of(const Workload& work) {
    const ParallelismConfig& p = work.spec.parallelism;
    const OpsKey key{p.tensor,
                     p.sequence,
                     context_of(p),
                     p.pipeline,
                     p.zero,
                     p.expert,
                     work.spec.training.local_batch_size,
                     work.spec.micro_batches > 1,
                     work.spec.activation_checkpoint.mode};
    auto known = ops_.find(key);
    if (known == ops_.end()) {
      known = ops_.emplace(key, record_step(work.spec, work.mesh, profile_.device())).first;
    }
    return known->second;
  }

  double bytes_of(const RunConfig& config, int place) const {
    return static_cast<double>(plan_place(config, device_, place).device_bytes);
  }

  // No schedule has more than two rounds of the pipeline in flight.
  static RunConfig with_few_micro_batches(const RunConfig& config) {
    const std::int64_t few = 2 * config.parallelism.pipeline;
    if (micro_batches_per_step(config) <= few) return config;
    RunConfig smaller = config;
    smaller.training.rampup_batch_size.clear();
    smaller.training.global_batch_size =
        few * config.training.local_batch_size * data_ranks(config.parallelism);
    return smaller;
  }

  void too_large(double bytes) {
    ++result_.rejected.too_large;
    const double missing = bytes - available_;
    double& least = result_.rejected.least_missing;
    least = least == 0 ? missing : std::min(least, missing);
  }

  double slowest_of_best() const {
    return result_.best.size() < kBest ? std::numeric_limits<double>::infinity()
                                       : result_.best.back().estimate.seconds;
  }

  const LoadedConfig& loaded_;
  int ranks_;
  const DeviceProfile& profile_;
  Device device_;
  double expert_imbalance_;
  double available_;
  ModelPlan model_;
  StateTheory theory_;
  std::vector<Candidate> candidates_;
  std::map<Kind, std::vector<std::pair<std::int64_t, int>>> too_large_;
  std::map<OpsKey, StepOps> ops_;
  SearchResult result_;
};

// The largest part of the time lost against the best: "pipeline bubble +120 ms".
std::string lacks(const StepEstimate& best, const StepEstimate& other) {
  const TimeParts& a = best.parts;
  const TimeParts& b = other.parts;
  const std::array<std::pair<const char*, double>, 8> more{
      {{"matmul", b.products - a.products},
       {"attention", b.attention - a.attention},
       {"memory-bound", b.streams - a.streams},
       {"exposed communication", b.messages - a.messages},
       {"pipeline bubble", b.bubble - a.bubble},
       {"gradient reduction", b.gradients - a.gradients},
       {"optimizer", b.optimizer - a.optimizer},
       {"offload", b.offload - a.offload}}};
  const auto* most = std::max_element(
      more.begin(), more.end(), [](const auto& x, const auto& y) { return x.second < y.second; });
  if (most->second <= 0) return "";
  return fmt::format("{} +{}", most->first, human_duration(most->second));
}

}  // namespace

SearchResult search_layouts(const LoadedConfig& loaded, int ranks, const DeviceProfile& profile,
                            Device device, double expert_imbalance) {
  return Search(loaded, ranks, profile, device, expert_imbalance).run();
}

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
  const RejectedLayouts& rejected = result.rejected;
  text += fmt::format("Rejected: {} violate a config rule", rejected.not_valid);
  if (rejected.too_large > 0) {
    text += fmt::format("; {} do not fit into {} (the closest needs {} more)", rejected.too_large,
                        human_bytes(static_cast<std::uint64_t>(available)),
                        human_bytes(static_cast<std::uint64_t>(rejected.least_missing)));
  }
  if (rejected.bounded > 0) {
    text += fmt::format("; {} have a lower bound on the step time that is above the layouts listed",
                        rejected.bounded);
  }
  if (rejected.slower > 0) text += fmt::format("; {} are slower by prediction", rejected.slower);
  return text + ".\n";
}

}  // namespace trireme
