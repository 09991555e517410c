#include "parallel/pipeline/slots.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace trireme {

int peak_in_flight(const std::vector<Action>& actions) {
  int now = 0;
  int most = 0;
  for (const Action& action : actions) {
    if (action.kind == Action::Kind::kForward) most = std::max(most, ++now);
    if (action.is_last_of_micro_batch()) --now;
  }
  return most;
}

std::vector<int> peak_in_flight(const Schedule& schedule) {
  std::vector<int> peaks;
  for (const std::vector<Action>& actions : schedule.ranks) {
    peaks.push_back(peak_in_flight(actions));
  }
  return peaks;
}

int SlotPools::count() const {
  return std::accumulate(slots.begin(), slots.end(), 0);
}

namespace {

// Peak over the stages for which `asks` is true.
template <class Asks>
int peak_of(const std::vector<Action>& actions, const Asks& asks) {
  std::vector<Action> theirs;
  std::copy_if(actions.begin(), actions.end(), std::back_inserter(theirs),
               [&](const Action& action) { return asks(action.stage); });
  return peak_in_flight(theirs);
}

// The largest size of each pool, ascending: the partition of the sorted sizes that needs the least
// memory, with as few pools as possible.
std::vector<std::int64_t> pool_sizes(const std::vector<Action>& actions,
                                     const std::vector<std::int64_t>& sizes) {
  std::set<std::int64_t> distinct;
  for (const Action& action : actions) distinct.insert(sizes[action.stage]);
  const std::vector<std::int64_t> sorted(distinct.begin(), distinct.end());
  struct Cut {
    std::int64_t bytes = std::numeric_limits<std::int64_t>::max();
    std::vector<std::int64_t> ends = {};
  };
  std::vector<Cut> best{{.bytes = 0}};  // of the first n sizes
  for (std::size_t end = 1; end <= sorted.size(); ++end) {
    Cut& found = best.emplace_back();
    for (std::size_t first = 0; first < end; ++first) {
      const int slots = peak_of(actions, [&](int stage) {
        const std::int64_t size = sizes[stage];
        return size >= sorted[first] && size <= sorted[end - 1];
      });
      const std::int64_t bytes = best[first].bytes + slots * sorted[end - 1];
      if (bytes >= found.bytes) continue;
      found = {bytes, best[first].ends};
      found.ends.push_back(sorted[end - 1]);
    }
  }
  return best.back().ends;
}

}  // namespace

SlotPools divide_slots(std::span<const Schedule> schedules, int rank,
                       const std::vector<std::int64_t>& sizes) {
  const std::vector<Action>& longest = schedules.back().ranks[rank];
  const std::vector<std::int64_t> ends = pool_sizes(longest, sizes);
  SlotPools pools{.of_stage = {}, .slots = std::vector<int>(ends.size(), 0)};
  for (const Action& action : longest) {
    const auto end = std::lower_bound(ends.begin(), ends.end(), sizes[action.stage]);
    pools.of_stage.emplace(action.stage, static_cast<int>(end - ends.begin()));
  }
  for (const Schedule& schedule : schedules) {
    for (int pool = 0; pool < static_cast<int>(ends.size()); ++pool) {
      int& slots = pools.slots[pool];
      slots = std::max(slots, peak_of(schedule.ranks[rank],
                                      [&](int stage) { return pools.of_stage.at(stage) == pool; }));
    }
  }
  return pools;
}

std::vector<int> assign_slots(const std::vector<Action>& actions, const SlotPools& pools) {
  std::vector<std::deque<int>> free_of_pool;
  int next = 0;
  for (const int count : pools.slots) {
    std::deque<int>& free = free_of_pool.emplace_back();
    for (int i = 0; i < count; ++i) free.push_back(next++);
  }
  std::map<std::pair<int, int>, int> held;  // (stage, micro-batch) -> slot
  std::vector<int> slots;
  for (const Action& action : actions) {
    const std::pair<int, int> which{action.stage, action.micro_batch};
    std::deque<int>& free = free_of_pool[pools.of_stage.at(action.stage)];
    if (action.kind == Action::Kind::kForward) {
      held[which] = free.front();
      free.pop_front();
    }
    slots.push_back(held.at(which));
    if (action.is_last_of_micro_batch()) free.push_back(slots.back());
  }
  return slots;
}

}  // namespace trireme
