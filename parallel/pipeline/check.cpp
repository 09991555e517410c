#include "parallel/pipeline/check.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "model/base/error.h"
#include "parallel/pipeline/action_table.h"
#include "parallel/pipeline/recent_schedules.h"

namespace trireme {
namespace {

using Kind = Action::Kind;

std::string at(int rank, std::size_t index, const Action& action) {
  return say("rank ", rank, ", action ", index, " (", action, ")");
}

// Calls visit(rank, index, action) for every action until it returns a violation.
template <class Visit>
std::string first_complaint(const Schedule& schedule, const Visit& visit) {
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    const std::vector<Action>& actions = schedule.ranks[rank];
    for (std::size_t index = 0; index < actions.size(); ++index) {
      std::string wrong = visit(static_cast<int>(rank), index, actions[index]);
      if (!wrong.empty()) return wrong;
    }
  }
  return {};
}

std::string complaint_about_names(const Schedule& schedule) {
  if (schedule.stages < 1 || schedule.micro_batches < 1 || schedule.ranks.empty()) {
    return say("there are ", schedule.ranks.size(), " ranks, ", schedule.stages, " stages and ",
               schedule.micro_batches, " micro-batches");
  }
  std::vector<int> ranks(schedule.stages, -1);
  return first_complaint(schedule, [&](int rank, std::size_t index, const Action& action) {
    if (action.stage < 0 || action.stage >= schedule.stages) {
      return say(at(rank, index, action), ": there is no stage ", action.stage, " of ",
                 schedule.stages);
    }
    if (action.micro_batch < 0 || action.micro_batch >= schedule.micro_batches) {
      return say(at(rank, index, action), ": there is no micro-batch ", action.micro_batch, " of ",
                 schedule.micro_batches);
    }
    int& home = ranks[action.stage];
    if (home >= 0 && home != rank) {
      return say(at(rank, index, action), ": stage ", action.stage, " is on rank ", home, " too");
    }
    home = rank;
    return std::string();
  });
}

std::string complaint_about_counts(const Schedule& schedule) {
  using Counts = std::array<int, 4>;  // by kind
  std::vector<Counts> counts(static_cast<std::size_t>(schedule.stages) *
                             static_cast<std::size_t>(schedule.micro_batches));
  const auto counts_of = [&](int stage, int micro_batch) -> Counts& {
    return counts[static_cast<std::size_t>(stage) *
                      static_cast<std::size_t>(schedule.micro_batches) +
                  static_cast<std::size_t>(micro_batch)];
  };
  std::string wrong =
      first_complaint(schedule, [&](int rank, std::size_t index, const Action& action) {
        const Counts& seen = counts_of(action.stage, action.micro_batch);
        const auto has = [&](Kind kind) { return seen[static_cast<std::size_t>(kind)] > 0; };
        const auto again = [&](const char* what) {
          return say(at(rank, index, action), ": stage ", action.stage, " has taken micro-batch ",
                     action.micro_batch, " ", what, " already");
        };
        if (has(action.kind)) return again("through this");
        if (has(Kind::kBackward)) return again("backward, both halves");
        if (action.kind == Kind::kBackward && has(Kind::kBackwardInput)) {
          return again("backward, the input half");
        }
        if (action.kind == Kind::kBackwardWeight && !has(Kind::kBackwardInput)) {
          return say(at(rank, index, action), ": the weight half comes before the input half");
        }
        if (action.kind != Kind::kForward && !has(Kind::kForward)) {
          return say(at(rank, index, action), ": backward comes before forward");
        }
        ++counts_of(action.stage, action.micro_batch)[static_cast<std::size_t>(action.kind)];
        return std::string();
      });
  if (!wrong.empty()) return wrong;
  for (int stage = 0; stage < schedule.stages; ++stage) {
    for (int m = 0; m < schedule.micro_batches; ++m) {
      const auto& [forward, backward, input, weight] = counts_of(stage, m);
      const char* missing = forward == 0             ? "forward"
                            : backward + input == 0  ? "backward"
                            : backward + weight == 0 ? "backward, the weight half"
                                                     : nullptr;
      if (missing) return say("stage ", stage, " never takes micro-batch ", m, " ", missing);
    }
  }
  return {};
}

std::string complaint_about_micro_batch_order(const Schedule& schedule) {
  struct Next {
    int forward = 0, input = 0, last = 0;
  };
  std::vector<Next> next(schedule.stages);
  return first_complaint(schedule, [&](int rank, std::size_t index, const Action& action) {
    Next& due = next[action.stage];
    const auto in_turn = [&](bool counts, int& turn) {
      return !counts || action.micro_batch == turn++;
    };
    if (in_turn(action.kind == Kind::kForward, due.forward) &&
        in_turn(action.makes_input_gradient(), due.input) &&
        in_turn(action.is_last_of_micro_batch(), due.last)) {
      return std::string();
    }
    return say(at(rank, index, action), ": stage ", action.stage,
               " must take its micro-batches in order, so that gradients have one order of "
               "summation");
  });
}

// Messages of one kind between two ranks, identified by the actions at both ends.
struct Channel {
  std::vector<Action> sent, received;
};

std::string complaint_about_messages(const Schedule& schedule, const ActionTable& table) {
  std::map<std::tuple<int, int, bool>, Channel> channels;  // from, to, is activation
  (void)first_complaint(schedule, [&](int rank, std::size_t /*index*/, const Action& action) {
    const bool forward = action.kind == Kind::kForward;
    if (const auto reader = table.reader_of(action); reader && reader->rank != rank) {
      channels[{rank, reader->rank, forward}].sent.push_back(table.at(*reader));
    }
    if (const auto source = table.source_of(action); source && source->rank != rank) {
      channels[{source->rank, rank, forward}].received.push_back(action);
    }
    return std::string();
  });
  for (const auto& [ends, channel] : channels) {
    const auto [from, to, forward] = ends;
    const auto [sent, received] = std::mismatch(channel.sent.begin(), channel.sent.end(),
                                                channel.received.begin(), channel.received.end());
    if (sent == channel.sent.end()) continue;
    return say("rank ", from, " sends rank ", to, " the ", forward ? "activations" : "gradient",
               " for ", *sent, " where rank ", to, " receives that for ", *received);
  }
  return {};
}

std::string complaint_about_waiting(const Schedule& schedule, const ActionTable& table) {
  const Play played = play(schedule, table);
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
    const auto index = static_cast<std::size_t>(played.reached[r]);
    if (index == schedule.ranks[r].size()) continue;
    const Action& action = schedule.ranks[r][index];
    const Place source = table.source_of(action).value();
    return say(at(static_cast<int>(r), index, action), " waits forever for ", table.at(source),
               " of rank ", source.rank);
  }
  return {};
}

std::string find_complaint(const Schedule& schedule) {
  std::string wrong = complaint_about_names(schedule);
  if (wrong.empty()) wrong = complaint_about_counts(schedule);
  if (wrong.empty()) wrong = complaint_about_micro_batch_order(schedule);
  if (!wrong.empty()) return wrong;
  const ActionTable table(schedule);
  wrong = complaint_about_messages(schedule, table);
  return wrong.empty() ? complaint_about_waiting(schedule, table) : wrong;
}

}  // namespace

std::string complaint(const Schedule& schedule) {
  thread_local RecentSchedules<std::string> recent;
  return recent.of(schedule, find_complaint);
}

}  // namespace trireme
