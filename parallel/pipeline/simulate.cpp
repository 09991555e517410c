#include "parallel/pipeline/simulate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "model/base/error.h"
#include "parallel/pipeline/recent_schedules.h"

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

ActionCosts ActionCosts::unit(int stages) {
  const std::vector<double> ones(stages, 1.0);
  return {ones, ones, ones, 0};
}

double ActionCosts::of(const Action& action) const {
  const auto stage = static_cast<std::size_t>(action.stage);
  switch (action.kind) {
    case Action::Kind::kForward:
      return forward.at(stage);
    case Action::Kind::kBackward:
      return backward_input.at(stage) + backward_weight.at(stage);
    case Action::Kind::kBackwardInput:
      return backward_input.at(stage);
    case Action::Kind::kBackwardWeight:
      return backward_weight.at(stage);
  }
  return 0;
}

double Timeline::idle_fraction() const {
  const double all = makespan * static_cast<double>(ranks.size());
  return all > 0 ? 1 - busy / all : 0;
}

double Timeline::overhead() const {
  return busy > 0 ? makespan * static_cast<double>(ranks.size()) / busy - 1 : 0;
}

double Timeline::idle_fraction(int rank) const {
  const std::vector<Span>& spans = ranks.at(rank);
  const double worked =
      std::accumulate(spans.begin(), spans.end(), 0.0,
                      [](double sum, const Span& span) { return sum + span.end - span.start; });
  return makespan > 0 ? 1 - worked / makespan : 0;
}

namespace {

// Requires a play in which every action ran.
Timeline timeline_of(const Schedule& schedule, const ActionTable& table, const Play& played,
                     const ActionCosts& costs) {
  Timeline timeline;
  for (const std::vector<Action>& actions : schedule.ranks) {
    timeline.ranks.emplace_back(actions.size());
  }
  const auto span_at = [&](const Place& place) -> Timeline::Span& {
    return timeline.ranks[place.rank][place.index];
  };
  const auto comes_to = [&](const Place& place) {
    return place.index > 0 ? span_at({place.rank, place.index - 1}).end : 0;
  };
  for (const Place& place : played.order) {
    const Action& action = table.at(place);
    double start = comes_to(place);
    if (const std::optional<Place> source = table.source_of(action)) {
      const double latency = source->rank == place.rank ? 0 : costs.transfer;
      start = std::max(start, span_at(*source).end + latency);
    }
    if (const std::optional<Place>& reader = played.outbox_waits[place.rank][place.index]) {
      start = std::max(start, comes_to(*reader));
    }
    const double cost = costs.of(action);
    span_at(place) = {start, start + cost};
    timeline.makespan = std::max(timeline.makespan, start + cost);
    timeline.busy += cost;
  }
  return timeline;
}

std::size_t count_actions(const Schedule& schedule) {
  std::size_t total = 0;
  for (const std::vector<Action>& actions : schedule.ranks) total += actions.size();
  return total;
}

}  // namespace

Timeline simulate(const Schedule& schedule, const ActionCosts& costs, int outboxes) {
  return Simulation(schedule, outboxes).run(costs);
}

Simulation::Simulation(Schedule schedule, int outboxes)
    : schedule_(std::move(schedule)),
      table_(schedule_),
      played_(play(schedule_, table_, outboxes)) {
  require(played_.order.size() == count_actions(schedule_), "the simulated schedule deadlocks");
}

Timeline Simulation::run(const ActionCosts& costs) const {
  return timeline_of(schedule_, table_, played_, costs);
}

namespace {

int find_outboxes(const Schedule& schedule) {
  const ActionTable table(schedule);
  const ActionCosts costs = ActionCosts::unit(schedule.stages);
  const double makespan = simulate(schedule, costs).makespan;
  for (int outboxes = 2;; ++outboxes) {
    const Play played = play(schedule, table, outboxes);
    if (played.order.size() < count_actions(schedule)) continue;
    if (timeline_of(schedule, table, played, costs).makespan <= makespan) return outboxes;
  }
}

}  // namespace

int outboxes_needed(const Schedule& schedule) {
  thread_local RecentSchedules<int> recent;
  return recent.of(schedule, find_outboxes);
}

std::string draw(const Schedule& schedule, const Timeline& timeline, int columns) {
  std::string drawing;
  const double scale = timeline.makespan > 0 ? columns / timeline.makespan : 0;
  const std::size_t digits = std::to_string(schedule.ranks.size() - 1).size();
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    std::string number = std::to_string(rank);
    number.insert(0, digits - number.size(), ' ');
    std::string line(columns, '.');
    const bool several = stages_of_rank(schedule, static_cast<int>(rank)).size() > 1;
    for (std::size_t i = 0; i < schedule.ranks[rank].size(); ++i) {
      const Action& action = schedule.ranks[rank][i];
      const Timeline::Span& span = timeline.ranks[rank][i];
      const auto first = static_cast<std::size_t>(std::lround(span.start * scale));
      const auto end = static_cast<std::size_t>(std::lround(span.end * scale));
      std::string name = say(action);
      if (!several) name.erase(0, std::to_string(action.stage).size());
      name.resize(end - first, '-');
      line.replace(first, end - first, name);
    }
    drawing += say("rank ", number, " |", line, "|\n");
  }
  return drawing;
}

Timeline simulate_sharing(const Schedule& schedule, const ActionCosts& costs,
                          const std::function<double(int busy)>& pace) {
  return SharingSimulation(schedule, costs, pace).run();
}

}  // namespace trireme
