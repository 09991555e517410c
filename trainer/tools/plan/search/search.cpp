#include "trainer/tools/plan/search/search.h"

#include <algorithm>
#include <limits>
#include <map>
#include <queue>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "trainer/config/rules.h"
#include "trainer/tools/plan/device/matmul_format.h"
#include "trainer/tools/plan/layout_plan.h"
#include "trainer/tools/plan/run_plan.h"
#include "trainer/tools/plan/search/best_shapes.h"
#include "trainer/tools/plan/search/layout_bounds.h"
#include "trainer/tools/plan/search/layouts.h"
#include "trainer/tools/plan/search/recent.h"
#include "trainer/tools/plan/search/too_large.h"

namespace trireme {
namespace {

// The choices of a family, without the rest of its config.
struct Family {
  ParallelismConfig parallelism;
  std::int64_t micro_batch = 1;
  Recompute recompute = Recompute::kNone;
  std::int64_t members = 0;
  double seconds = 0;      // lower bound by its layers, and by those of less recomputation
  std::uint32_t less = 0;  // the family with less recomputation, or itself
  bool is_valid = false;   // found when it is examined

  LayoutShape shape() const { return shape_of(parallelism); }
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
// of the best layouts found. A shape has one place among them, so that its other layouts are also
// skipped when they are bounded by the time of that one.
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
        bounds_(loaded.config, profile, device, expert_imbalance),
        checked_{.config = loaded.config, .source = loaded.source, .origins = {}} {
    Complaints complaints;
    check_rules_of_run(checked_, complaints, Purpose::kPlanning);
    run_is_valid_ = complaints.empty();
  }

  SearchResult run() {
    require_numbers(profile_, workload_of(loaded_.config));
    result_.data_ranks_left = each_family(loaded_.config, ranks_, node(),
                                          [&](const RunConfig& family) { consider(family); });
    result_.shapes = std::ssize(shapes_);
    while (!candidates_.empty()) {
      const Candidate candidate = candidates_.top();
      candidates_.pop();
      if (candidate.bound >= best_.limit_of(families_[candidate.family].shape())) {
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
        closer.bound = std::max(candidate.bound,
                                member_of(candidate).seconds_without_update(candidate.schedule));
        candidates_.push(closer);
      } else {
        rank(candidate);
      }
    }
    result_.best = best_.take();
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

  // Candidates of one member do not follow each other, so that those used last are kept.
  LayoutBounds::Member& member_of(const Candidate& candidate) {
    return members_.of({candidate.family, candidate.replicate},
                       [&] { return LayoutBounds::Member(bounds_, layout_of(candidate)); });
  }

  std::string complaints_of(const RunConfig& config) {
    Complaints complaints;
    checked_.config = config;
    const auto check = run_is_valid_ ? check_rules_of_layout : check_rules;
    check(checked_, complaints, Purpose::kPlanning);
    return complaints.empty() ? "" : complaints.text(loaded_.source);
  }

  bool is_valid(const RunConfig& config) {
    std::string why = complaints_of(config);
    if (why.empty()) return true;
    if (result_.rejected.violated.empty()) result_.rejected.violated = std::move(why);
    return false;
  }

  void consider(const RunConfig& config) {
    const auto members = static_cast<std::int64_t>(replicate_degrees(config, node()).size() *
                                                   schedule_choices(config).size());
    result_.considered += members;
    shapes_.insert(shape_of(config.parallelism));
    if (const double state = bounds_.state_bytes(config); state > available_) {
      return too_large(state, members);
    }
    const auto index = static_cast<std::uint32_t>(families_.size());
    candidates_.push({.bound = bounds_.seconds_by_flops(config), .family = index});
    const bool follows = index > 0 && families_.back().parallelism == config.parallelism &&
                         families_.back().micro_batch == config.training.local_batch_size;
    families_.push_back({.parallelism = config.parallelism,
                         .micro_batch = config.training.local_batch_size,
                         .recompute = config.activation_checkpoint.mode,
                         .members = members,
                         .less = follows ? index - 1 : index});
  }

  // Some rules need replicas, and no rule needs both replicas and shards.
  void examine(const Candidate& candidate) {
    Family& family = families_[candidate.family];
    const RunConfig config = config_of(family);
    if (!family.is_valid) {
      RunConfig replicated = config;
      std::swap(replicated.parallelism.data_shard, replicated.parallelism.data_replicate);
      if (!complaints_of(replicated).empty() && !is_valid(config)) {
        result_.rejected.not_valid += family.members;
        return;
      }
      family.is_valid = true;
    }
    if (known_.has_smaller_family(config)) {
      result_.rejected.too_large += family.members;
      return;
    }
    Candidate closer = candidate;
    // Recomputation adds ops, so that a family takes no less than with less of it.
    closer.bound = families_[family.less].seconds;
    if (closer.bound > candidate.bound) return candidates_.push(closer);
    closer.by = Candidate::Known::kLayers;
    closer.bound = std::max(candidate.bound, bounds_.seconds_by_layers(config));
    families_[candidate.family].seconds = closer.bound;
    const double least = bounds_.bytes(config);
    if (least <= available_) return candidates_.push(closer);
    known_.add_family(config);
    too_large(least, family.members);
  }

  void expand(const Candidate& candidate) {
    const RunConfig config = config_of(families_[candidate.family]);
    const std::vector<ScheduleChoice> schedules = schedule_choices(config);
    for (const std::int64_t replicate : replicate_degrees(config, node())) {
      Candidate layout = candidate;
      layout.by = Candidate::Known::kSchedule;
      layout.replicate = replicate;
      layout.schedule = schedules.front();
      LayoutBounds::Member& member = member_of(layout);
      for (const ScheduleChoice& choice : schedules) {
        if (const double least = member.bytes(choice); least > available_) {
          too_large(least);
          continue;
        }
        layout.bound = std::max(candidate.bound, member.seconds(choice));
        layout.schedule = choice;
        candidates_.push(layout);
      }
    }
  }

  // ZeRO-1's pipeline does not depend on what data ranks send after its backwards.
  void simulate(const Candidate& candidate) {
    const RunConfig config = layout_of(candidate);
    if (known_.has_smaller(config)) {
      ++result_.rejected.too_large;
      return;
    }
    const auto seconds = [&] {
      return member_of(candidate).seconds_by_simulation(candidate.schedule);
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
    if (known_.has_smaller(config)) {
      ++result_.rejected.too_large;
      return;
    }
    // As the trainer divides them, which takes a while.
    config.parallelism.layers_per_stage =
        bounds_.parts()
            .division(config.parallelism.pipeline * config.parallelism.virtual_stages)
            .layers_per_stage;
    // The time first, which takes a few layers; memory takes all.
    const Workload work = workload_of(config, expert_imbalance_);
    StepEstimate estimate =
        estimate_step(work, record_step(work.spec, work.mesh, profile_), profile_,
                      bounds_.parts().simulation(work, candidate.schedule));
    if (estimate.seconds >= best_.limit_of(shape_of(config.parallelism))) {
      ++result_.rejected.slower;
      return;
    }
    // The first pipeline rank holds the most micro-batches in flight.
    const RunConfig few = with_few_micro_batches(config);
    const double least = bytes_of(few, 0);
    if (least > available_) {
      known_.add(config);
      return too_large(least);
    }
    const bool has_few = few.training.global_batch_size == config.training.global_batch_size;
    double most = has_few ? least : 0;
    for (int place = has_few ? 1 : 0; place < config.parallelism.pipeline; ++place) {
      most = std::max(most, bytes_of(config, place));
      if (most > available_) return too_large(most);
    }
    config.parallelism.layers_per_stage.clear();
    result_.rejected.slower += best_.add({config, std::move(estimate), most});
  }

  double bytes_of(const RunConfig& config, int place) const {
    return static_cast<double>(device_bytes_of_place(config, device_, place));
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

  void too_large(double bytes, std::int64_t layouts = 1) {
    result_.rejected.too_large += layouts;
    const double missing = bytes - available_;
    double& least = result_.rejected.least_missing;
    least = least == 0 ? missing : std::min(least, missing);
  }

  const LoadedConfig& loaded_;
  int ranks_;
  const DeviceProfile& profile_;
  Device device_;
  double expert_imbalance_;
  double available_;
  LayoutBounds bounds_;
  LoadedConfig checked_;  // its config is that of the layout checked last
  bool run_is_valid_ = false;
  std::vector<Family> families_;
  std::set<LayoutShape> shapes_;
  std::priority_queue<Candidate> candidates_;
  TooLargeLayouts known_;
  std::map<std::tuple<std::uint32_t, std::string, std::int64_t>, double> simulated_;
  Recent<std::pair<std::uint32_t, std::int64_t>, LayoutBounds::Member> members_{16384};
  BestShapes best_;
  SearchResult result_;
};

}  // namespace

SearchResult search_layouts(const LoadedConfig& loaded, int ranks, const DeviceProfile& profile,
                            Device device, double expert_imbalance) {
  return Search(loaded, ranks, profile, device, expert_imbalance).run();
}

}  // namespace trireme
