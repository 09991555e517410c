#include "trainer/tools/plan/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <queue>
#include <string>
#include <tuple>
#include <utility>

#include "model/base/human.h"
#include "trainer/config/layout_text.h"
#include "trainer/config/rules.h"
#include "trainer/config/value_text.h"
#include "trainer/tools/plan/layout_bounds.h"
#include "trainer/tools/plan/layouts.h"
#include "trainer/tools/plan/matmul_format.h"
#include "trainer/tools/plan/run_plan.h"

namespace trireme {
namespace {

constexpr std::size_t kBest = 10;

// The choices of a family, without the rest of its config.
struct Family {
  ParallelismConfig parallelism;
  std::int64_t micro_batch = 1;
  Recompute recompute = Recompute::kNone;
  std::int64_t members = 0;
};

// A family, or one of its layouts, with a lower bound of the step time.
struct Candidate {
  enum class Known : std::uint8_t { kFlops, kLayers, kSchedule, kSimulation, kMessages };
  double bound = 0;
  Known by = Known::kFlops;
  std::uint32_t family = 0;
  // Of a layout:
  std::int64_t replicate = 1;
  ScheduleChoice schedule = {};
  // Of layouts with equal bounds, that with the fewest replicas needs the least memory.
  // Families come with ascending micro-batches.
  bool operator<(const Candidate& other) const {  // least on top
    return std::tie(bound, replicate, family) >
           std::tie(other.bound, other.replicate, other.family);
  }
};

// Best first: what has the least bound is examined more closely, until the least is above the times
// of the best layouts found.
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
        bounds_(loaded.config, profile, device, expert_imbalance) {}

  SearchResult run() {
    result_.data_ranks_left = each_family(loaded_.config, ranks_, node(),
                                          [&](const RunConfig& family) { consider(family); });
    while (!candidates_.empty()) {
      const Candidate candidate = candidates_.top();
      candidates_.pop();
      if (candidate.bound >= slowest_of_best()) {
        result_.rejected.bounded += count_of(candidate);
      } else if (candidate.by == Candidate::Known::kFlops) {
        examine(candidate);
      } else if (candidate.by == Candidate::Known::kLayers) {
        expand(candidate);
      } else if (candidate.by == Candidate::Known::kSchedule) {
        simulate(candidate);
      } else if (candidate.by == Candidate::Known::kSimulation) {
        Candidate closer = candidate;
        closer.by = Candidate::Known::kMessages;
        closer.bound = std::max(candidate.bound, LayoutBounds::Member(bounds_, layout_of(candidate))
                                                     .seconds_without_update(candidate.schedule));
        candidates_.push(closer);
      } else {
        rank(candidate);
      }
    }
    return std::move(result_);
  }

 private:
  int node() const { return profile_.network.ranks_per_node; }

  std::int64_t count_of(const Candidate& candidate) const {
    const bool is_layout = candidate.by >= Candidate::Known::kSchedule;
    return is_layout ? 1 : families_[candidate.family].members;
  }

  RunConfig config_of(const Family& family) const {
    RunConfig config = loaded_.config;
    config.parallelism = family.parallelism;
    config.training.local_batch_size = family.micro_batch;
    config.activation_checkpoint.mode = family.recompute;
    return config;
  }

  RunConfig layout_of(const Candidate& candidate) const {
    RunConfig config = config_of(families_[candidate.family]);
    set_member(config, candidate.replicate, candidate.schedule);
    return config;
  }

  std::string complaints_of(const RunConfig& config) const {
    Complaints complaints;
    check_rules({.config = config, .source = loaded_.source, .origins = {}}, complaints,
                Purpose::kPlanning);
    return complaints.empty() ? "" : complaints.text(loaded_.source);
  }

  bool is_valid(const RunConfig& config) {
    std::string why = complaints_of(config);
    if (why.empty()) return true;
    if (result_.rejected.violated.empty()) result_.rejected.violated = std::move(why);
    return false;
  }

  using Kind = std::tuple<std::int64_t, bool, ContextShape, std::int64_t, std::string, std::int64_t,
                          std::int64_t, std::int64_t>;
  static Kind kind_of(const RunConfig& config) {
    const ParallelismConfig& p = config.parallelism;
    return {p.tensor,   p.sequence,       context_of(p), p.pipeline,
            p.schedule, p.virtual_stages, p.zero,        p.expert};
  }
  // Of families: of all schedules.
  static Kind kind_of_family(const RunConfig& config) {
    RunConfig any = config;
    any.parallelism.schedule.clear();
    any.parallelism.virtual_stages = 0;
    return kind_of(any);
  }
  void consider(const RunConfig& config) {
    const auto members = static_cast<std::int64_t>(replicate_degrees(config, node()).size() *
                                                   schedule_choices(config).size());
    result_.considered += members;
    if (const double state = bounds_.state_bytes(config); state > available_) {
      return too_large(state, members);
    }
    candidates_.push({.bound = bounds_.seconds_by_flops(config),
                      .family = static_cast<std::uint32_t>(families_.size())});
    families_.push_back({config.parallelism, config.training.local_batch_size,
                         config.activation_checkpoint.mode, members});
  }

  // Some rules need replicas, and no rule needs both replicas and shards.
  void examine(const Candidate& candidate) {
    const Family& family = families_[candidate.family];
    const RunConfig config = config_of(family);
    RunConfig replicated = config;
    std::swap(replicated.parallelism.data_shard, replicated.parallelism.data_replicate);
    if (!complaints_of(replicated).empty() && !is_valid(config)) {
      result_.rejected.not_valid += family.members;
      return;
    }
    const Kind kind = kind_of_family(config);
    if (is_larger_than_one_that_is_too_large(config, kind)) {
      result_.rejected.too_large += family.members;
      return;
    }
    Candidate closer = candidate;
    closer.by = Candidate::Known::kLayers;
    closer.bound = std::max(candidate.bound, bounds_.seconds_by_layers(config));
    const double least = bounds_.bytes(config);
    if (least <= available_) return candidates_.push(closer);
    remember_too_large(config, kind);
    too_large(least, family.members);
  }

  void expand(const Candidate& candidate) {
    RunConfig config = config_of(families_[candidate.family]);
    const std::vector<ScheduleChoice> schedules = schedule_choices(config);
    for (const std::int64_t replicate : replicate_degrees(config, node())) {
      set_member(config, replicate, schedules.front());
      LayoutBounds::Member member(bounds_, config);
      for (const ScheduleChoice& choice : schedules) {
        if (const double least = member.bytes(choice); least > available_) {
          too_large(least);
          continue;
        }
        Candidate layout = candidate;
        layout.by = Candidate::Known::kSchedule;
        layout.bound = std::max(candidate.bound, member.seconds(choice));
        layout.replicate = replicate;
        layout.schedule = choice;
        candidates_.push(layout);
      }
    }
  }

  // What a layout that does not fit has of what takes memory.
  struct TooLarge {
    std::int64_t micro_batch = 1;
    int kept = 0;
    std::int64_t replicate = 1;
  };

  // True if a layout that does not fit differs only by a smaller micro-batch, by more recomputation
  // or by fewer replicas, which divide the state among more ranks.
  bool is_larger_than_one_that_is_too_large(const RunConfig& config, const Kind& kind) const {
    const auto found = too_large_.find(kind);
    if (found == too_large_.end()) return false;
    const ParallelismConfig& p = config.parallelism;
    return std::any_of(found->second.begin(), found->second.end(), [&](const TooLarge& other) {
      // Without shard groups their buffers are missing.
      const bool has_larger_state = p.data_replicate == other.replicate ||
                                    (p.data_replicate > other.replicate && p.data_shard > 1);
      return config.training.local_batch_size >= other.micro_batch &&
             kept_of(config) >= other.kept && has_larger_state;
    });
  }

  // Rank of the recomputation mode by activation memory.
  static int kept_of(const RunConfig& config) {
    return -static_cast<int>(config.activation_checkpoint.mode);
  }

  // ZeRO-1's pipeline does not depend on what data ranks send after its backwards.
  void simulate(const Candidate& candidate) {
    const RunConfig config = layout_of(candidate);
    if (is_larger_than_one_that_is_too_large(config, kind_of(config))) {
      ++result_.rejected.too_large;
      return;
    }
    const auto seconds = [&] {
      return LayoutBounds::Member(bounds_, config).seconds_by_simulation(candidate.schedule);
    };
    Candidate closer = candidate;
    closer.by = Candidate::Known::kSimulation;
    if (config.parallelism.zero > 1) {
      closer.bound = std::max(candidate.bound, seconds());
    } else {
      const auto [known, is_new] = simulated_.try_emplace(
          {candidate.family, candidate.schedule.schedule->name, candidate.schedule.virtual_stages});
      if (is_new) known->second = seconds();
      closer.bound = std::max(candidate.bound, known->second);
    }
    candidates_.push(closer);
  }

  void rank(const Candidate& candidate) {
    RunConfig config = layout_of(candidate);
    if (!is_valid(config)) {
      ++result_.rejected.not_valid;
      return;
    }
    if (is_larger_than_one_that_is_too_large(config, kind_of(config))) {
      ++result_.rejected.too_large;
      return;
    }
    // As the trainer divides them, which takes a while.
    config.parallelism.layers_per_stage =
        bounds_.division(config.parallelism.pipeline * config.parallelism.virtual_stages)
            .layers_per_stage;
    // The time first, which takes a few layers; memory takes all.
    const Workload work = workload_of(config, expert_imbalance_);
    StepEstimate estimate = estimate_step(work, record_step(work.spec, work.mesh, profile_),
                                          profile_, bounds_.simulation(work, candidate.schedule));
    if (estimate.seconds >= slowest_of_best()) {
      ++result_.rejected.slower;
      return;
    }
    // The first pipeline rank holds the most micro-batches in flight.
    const double least = bytes_of(with_few_micro_batches(config), 0);
    if (least > available_) {
      too_large_[kind_of(config)].push_back(
          {config.training.local_batch_size, kept_of(config), config.parallelism.data_replicate});
      return too_large(least);
    }
    double most = 0;
    for (int place = 0; place < config.parallelism.pipeline; ++place) {
      most = std::max(most, bytes_of(config, place));
      if (most > available_) return too_large(most);
    }
    config.parallelism.layers_per_stage.clear();
    const auto at = std::upper_bound(
        result_.best.begin(), result_.best.end(), estimate.seconds,
        [](double seconds, const RankedLayout& other) { return seconds < other.estimate.seconds; });
    result_.best.insert(at, RankedLayout{config, std::move(estimate), most});
    if (result_.best.size() <= kBest) return;
    result_.best.pop_back();
    ++result_.rejected.slower;
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

  void remember_too_large(const RunConfig& config, const Kind& kind) {
    too_large_[kind].push_back(
        {config.training.local_batch_size, kept_of(config), config.parallelism.data_replicate});
  }

  void too_large(double bytes, std::int64_t layouts = 1) {
    result_.rejected.too_large += layouts;
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
  LayoutBounds bounds_;
  std::vector<Family> families_;
  std::priority_queue<Candidate> candidates_;
  std::map<Kind, std::vector<TooLarge>> too_large_;
  std::map<std::tuple<std::uint32_t, std::string, std::int64_t>, double> simulated_;
  SearchResult result_;
};

// The largest part of the time lost against the best: "pipeline bubble +120 ms".
std::string lacks(const StepEstimate& best, const StepEstimate& other) {
  const auto more = [&](const TimePart& part) {
    return other.parts.*part.seconds - best.parts.*part.seconds;
  };
  const TimePart& most = *std::ranges::max_element(kTimeParts, {}, more);
  return more(most) > 0 ? fmt::format("{} +{}", most.name, human_duration(more(most))) : "";
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
