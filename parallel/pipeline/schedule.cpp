#include "parallel/pipeline/schedule.h"

#include <algorithm>

#include "model/base/error.h"

namespace trireme {
namespace {

using Kind = Action::Kind;

// Which micro-batches a stage has taken forward and backward.
struct Done {
  explicit Done(int micro_batches)
      : forward(static_cast<std::size_t>(micro_batches)),
        backward(static_cast<std::size_t>(micro_batches)) {}
  std::vector<bool> forward, backward;
};

}  // namespace

Schedule one_forward_one_backward(int stage, int stages, int micro_batches) {
  const int ahead = std::min(stages - stage - 1, micro_batches);
  Schedule actions;
  for (int m = 0; m < ahead; ++m) actions.push_back({Kind::kForward, m});
  for (int m = ahead; m < micro_batches; ++m) {
    actions.push_back({Kind::kForward, m});
    actions.push_back({Kind::kBackward, m - ahead});
  }
  for (int m = micro_batches - ahead; m < micro_batches; ++m) {
    actions.push_back({Kind::kBackward, m});
  }
  return actions;
}

Schedule all_forward_all_backward(int micro_batches) {
  Schedule actions;
  for (int m = 0; m < micro_batches; ++m) actions.push_back({Kind::kForward, m});
  for (int m = 0; m < micro_batches; ++m) actions.push_back({Kind::kBackward, m});
  return actions;
}

int most_in_flight(const Schedule& schedule) {
  int now = 0;
  int most = 0;
  for (const Action& action : schedule) {
    now += action.kind == Kind::kForward ? 1 : -1;
    most = std::max(most, now);
  }
  return most;
}

std::string complaint(const std::vector<Schedule>& stages, int micro_batches) {
  const std::size_t n = stages.size();
  std::vector<Done> done(n, Done(micro_batches));
  std::vector<std::size_t> at(n);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t s = 0; s < n; ++s) {
      if (at[s] == stages[s].size()) continue;
      const Action action = stages[s][at[s]];
      if (action.micro_batch < 0 || action.micro_batch >= micro_batches) {
        return say("stage ", s, " names micro-batch ", action.micro_batch);
      }
      const auto m = static_cast<std::size_t>(action.micro_batch);
      const bool forward = action.kind == Kind::kForward;
      const bool ready = forward ? s == 0 || done[s - 1].forward[m]
                                 : done[s].forward[m] && (s == n - 1 || done[s + 1].backward[m]);
      if (!ready) continue;
      std::vector<bool>& mine = forward ? done[s].forward : done[s].backward;
      if (mine[m]) return say("stage ", s, " repeats micro-batch ", m);
      mine[m] = true;
      ++at[s];
      moved = true;
    }
  }
  for (std::size_t s = 0; s < n; ++s) {
    if (at[s] != stages[s].size()) return say("stage ", s, " waits for ever at action ", at[s]);
    for (int i = 0; i < micro_batches; ++i) {
      const auto m = static_cast<std::size_t>(i);
      if (!done[s].forward[m] || !done[s].backward[m]) {
        return say("stage ", s, " forgets micro-batch ", m);
      }
    }
  }
  return {};
}

}  // namespace trireme
