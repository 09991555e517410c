#include "parallel/pipeline/simulate_sharing.h"

#include <algorithm>
#include <limits>

#include "model/base/error.h"

namespace trireme {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

class SharingSimulation {
 public:
  SharingSimulation(const Schedule& schedule, const ActionCosts& costs,
                    const std::function<double(int)>& pace)
      : schedule_(schedule),
        table_(schedule),
        costs_(costs),
        pace_(pace),
        next_(schedule.ranks.size(), 0),
        left_(schedule.ranks.size(), kIdle) {
    for (const std::vector<Action>& actions : schedule.ranks) {
      timeline_.ranks.emplace_back(actions.size());
    }
  }

  Timeline run() {
    for (start_ready(); !is_done(); start_ready()) go_on();
    timeline_.makespan = now_;
    return std::move(timeline_);
  }

 private:
  static constexpr double kIdle = -1;

  Timeline::Span& span_at(std::size_t rank, std::size_t index) {
    return timeline_.ranks[rank][index];
  }
  bool has_more(std::size_t rank) const { return next_[rank] < schedule_.ranks[rank].size(); }
  bool is_busy(std::size_t rank) const { return left_[rank] >= 0; }
  bool is_done() const {
    for (std::size_t rank = 0; rank < next_.size(); ++rank) {
      if (has_more(rank)) return false;
    }
    return true;
  }

  // When the input of the rank's next action is available; kNever while it is being computed.
  double ready_at(std::size_t rank) {
    const std::optional<Place> source = table_.source_of(schedule_.ranks[rank][next_[rank]]);
    if (!source) return 0;
    const auto of = static_cast<std::size_t>(source->rank);
    const auto index = static_cast<std::size_t>(source->index);
    if (index >= next_[of]) return kNever;
    return span_at(of, index).end + (of == rank ? 0 : costs_.transfer);
  }

  void start_ready() {
    for (std::size_t rank = 0; rank < next_.size(); ++rank) {
      if (is_busy(rank) || !has_more(rank) || ready_at(rank) > now_) continue;
      left_[rank] = costs_.of(schedule_.ranks[rank][next_[rank]]);
      span_at(rank, next_[rank]).start = now_;
    }
  }

  // Advances to the next time at which an action ends or can start.
  void go_on() {
    const auto busy = static_cast<int>(
        std::count_if(left_.begin(), left_.end(), [](double left) { return left >= 0; }));
    const double pace = busy > 0 ? pace_(busy) : 1;
    double until = kNever;
    for (std::size_t rank = 0; rank < next_.size(); ++rank) {
      if (is_busy(rank)) {
        until = std::min(until, now_ + left_[rank] / pace);
      } else if (has_more(rank)) {
        until = std::min(until, ready_at(rank));
      }
    }
    require(until < kNever, "the simulated schedule deadlocks");
    for (std::size_t rank = 0; rank < next_.size(); ++rank) {
      if (!is_busy(rank)) continue;
      timeline_.busy += until - now_;
      const double end = now_ + left_[rank] / pace;
      left_[rank] = std::max(0.0, left_[rank] - (until - now_) * pace);
      if (end > until) continue;
      left_[rank] = kIdle;
      span_at(rank, next_[rank]++).end = until;
    }
    now_ = until;
  }

  const Schedule& schedule_;
  const ActionTable table_;
  const ActionCosts& costs_;
  const std::function<double(int)>& pace_;
  std::vector<std::size_t> next_;  // by rank: index in its list
  std::vector<double> left_;       // remaining cost; kIdle if not started
  double now_ = 0;
  Timeline timeline_;
};

}  // namespace

Timeline simulate_sharing(const Schedule& schedule, const ActionCosts& costs,
                          const std::function<double(int busy)>& pace) {
  return SharingSimulation(schedule, costs, pace).run();
}

}  // namespace trireme
