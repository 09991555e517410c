// The protocol of Lease and of a run's files as a state machine, and every order in which two
// claimants' file operations can meet, or many random ones of three: plain runs, supervisors that
// begin a next incarnation while ranks of the one before live on, a requeued job, holders that are
// killed, frozen and wake up late, a lease that somebody removes, and file systems whose locks end
// at the node.
//
// Assumed: one who runs renews within a term; and nobody is frozen between the last check of a
// start and the few operations that follow it (sweep, catalogue, new metrics), which are one action
// here.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <random>
#include <string_view>
#include <type_traits>
#include <unordered_set>
#include <vector>

namespace trireme::checkpoint::lease_model {
namespace {

constexpr int kClaimants = 3, kActors = kClaimants + 1;  // the last: a late rank of a supervisor
constexpr int kFiles = 10, kNone = -1;
// With two steps there are ten times as many orders: --thorough looks at them.
const int kLastStep = std::getenv("TRIREME_THOROUGH") ? 2 : 1;

// What the protocol does, and what it must not leave out: each is a mistake to be found.
struct Rules {
  bool replaces_file = true;  // a new holder's lease is a new file; else it writes into the old
  bool new_metrics = true;    // a start puts a new metrics file in the old one's place
  bool checks_steps = true;   // held() before a step is told
  bool sweeps = true;         // a start removes what others have not committed
  bool proves_death = true;   // a free lock of another node is no proof
  bool locks_reach_all_nodes = false;
};

enum class At : std::int8_t {
  kOpen,
  kLock,
  kJudge,
  kObserve,
  kCount,
  kPlace,
  kRename,
  kClose,
  kStart,
  kCheckStep,
  kTell,
  kCheckCommit,
  kPublish,
  kRelease,
  // for good
  kDone,
  kRefused,
  kLost,
  kKilled,
  kIdle,
};

struct Actor {
  At at = At::kIdle;
  std::int8_t node = 0;
  std::int8_t requeued_from = kNone;  // the claimant whose job this is, started again
  std::int8_t old = kNone, own = kNone, metrics = kNone;  // files
  std::int8_t step = 0;
  bool frozen = false, supervises = false, has_partial = false, may_restart = false;

  bool ended() const { return at >= At::kDone; }
};

struct LeaseEntry {
  std::int8_t holder = kNone, exclusive = kNone;
  std::int8_t incarnation = 0;
  std::int8_t shared = 0;  // a bit for each actor
};

// Without padding: states are known by a hash of their bytes.
struct State {
  std::array<Actor, kActors> actors{};
  std::array<LeaseEntry, kFiles> leases{};
  std::int8_t lease = kNone, counter = 0;  // what the names lead to
  std::int8_t metrics = kNone, next_lease = 0, next_metrics = 0;
  std::int8_t told = 0;       // the last step in the metrics file
  std::int8_t committed = 0;  // the newest checkpoint
  std::int8_t listed_by = kNone;
  std::int8_t kills = 1, freezes = 1, removals = 1;
  std::int8_t wrong = 0;

  std::size_t key() const {
    return std::hash<std::string_view>{}({reinterpret_cast<const char*>(this), sizeof *this});
  }
};
static_assert(std::has_unique_object_representations_v<State>);

class Model {
 public:
  explicit Model(Rules rules) : rules_(rules) {}

  // All states that are one operation further.
  std::vector<State> after(const State& state) const {
    std::vector<State> next;
    for (int who = 0; who < kActors; ++who) {
      const Actor& actor = state.actors[who];
      if (actor.ended()) continue;
      if (!actor.frozen) {
        State moved = state;
        if (move(moved, who)) next.push_back(moved);
        if (actor.may_restart && actor.at >= At::kCheckStep && actor.at <= At::kPublish) {
          next.push_back(restarted(state, who));
        }
        if (state.freezes > 0) {
          State frozen = state;
          frozen.actors[who].frozen = true;
          --frozen.freezes;
          next.push_back(frozen);
        }
      } else {
        State awake = state;
        awake.actors[who].frozen = false;
        next.push_back(awake);
      }
      if (state.kills > 0) {
        State killed = state;
        end(killed, who, At::kKilled);
        --killed.kills;
        next.push_back(killed);
      }
    }
    if (state.removals > 0 && state.lease != kNone) {
      State removed = state;
      removed.lease = kNone;
      --removed.removals;
      next.push_back(removed);
    }
    return next;
  }

  // Whether one who comes when all have ended gets the lease and trains to the end.
  bool goes_on_from(State state) const {
    state.kills = state.freezes = state.removals = 0;
    Actor& late = state.actors[kClaimants - 1];
    late = Actor{};
    late.at = At::kOpen;
    late.node = 9;
    for (int operation = 0; operation < 60 && !late.ended(); ++operation) {
      move(state, kClaimants - 1);
    }
    return late.at == At::kDone && !state.wrong;
  }

 private:
  bool holds(const State& state, int who) const {
    const std::int8_t own = state.actors[who].own;
    if (!rules_.replaces_file) return state.lease == own;  // the file says another, nobody looks
    return state.lease == own && own != kNone;
  }

  bool is_locked_for(const State& state, int who, const LeaseEntry& entry) const {
    for (int other = 0; other < kActors; ++other) {
      const bool has = entry.exclusive == other || (entry.shared >> other & 1) != 0;
      const bool seen =
          rules_.locks_reach_all_nodes || state.actors[other].node == state.actors[who].node;
      if (other != who && has && seen) return true;
    }
    return false;
  }

  static void unlock(State& state, int who) {
    for (LeaseEntry& entry : state.leases) {
      if (entry.exclusive == who) entry.exclusive = kNone;
      entry.shared = static_cast<std::int8_t>(entry.shared & ~(1 << who));
    }
  }

  static void end(State& state, int who, At how) {
    unlock(state, who);
    state.actors[who].at = how;
  }

  static std::int8_t new_lease(State& state) {
    const std::int8_t file = state.next_lease;
    state.next_lease = static_cast<std::int8_t>((file + 1) % kFiles);
    state.leases[file] = {};
    return file;
  }

  static void retry(State& state, int who) {
    unlock(state, who);
    state.actors[who].at = At::kOpen;
  }

  // The ranks of an incarnation that is given up may live on: they become the actor for that.
  State restarted(State state, int who) const {
    Actor& supervisor = state.actors[who];
    supervisor.may_restart = false;
    Actor& rank = state.actors[kActors - 1];
    rank = supervisor;
    rank.supervises = false;
    state.leases[supervisor.own].shared |= 1 << (kActors - 1);
    if (state.listed_by == who) state.listed_by = kActors - 1;
    supervisor.has_partial = false;
    supervisor.old = supervisor.own;
    supervisor.at = holds(state, who) ? At::kCount : At::kLost;
    if (supervisor.at == At::kLost) end(state, who, At::kLost);
    return state;
  }

  bool move(State& state, int who) const {
    Actor& actor = state.actors[who];
    switch (actor.at) {
      case At::kOpen:
        if (state.lease == kNone) state.lease = new_lease(state);
        actor.old = state.lease;
        actor.at = At::kLock;
        return true;
      case At::kLock:
        if (is_locked_for(state, who, state.leases[actor.old])) {
          actor.at = state.lease == actor.old ? At::kRefused : At::kOpen;
          return true;
        }
        state.leases[actor.old].exclusive = static_cast<std::int8_t>(who);
        actor.at = At::kJudge;
        return true;
      case At::kJudge: {
        const std::int8_t holder = state.leases[actor.old].holder;
        const bool proven = holder == kNone || state.actors[holder].node == actor.node ||
                            holder == actor.requeued_from || !rules_.proves_death;
        actor.at = proven ? At::kCount : At::kObserve;
        return true;
      }
      case At::kObserve: {
        const Actor& holder = state.actors[state.leases[actor.old].holder];
        const bool renews = !holder.ended() && !holder.frozen && holder.own == actor.old;
        if (renews) {
          end(state, who, At::kRefused);
        } else {
          actor.at = At::kCount;
        }
        return true;
      }
      case At::kCount:
        state.counter = static_cast<std::int8_t>(
            1 + std::max(state.counter, state.leases[actor.old].incarnation));
        actor.at = At::kPlace;
        return true;
      case At::kPlace:
        if (state.lease != actor.old) {
          if (actor.own == kNone) {
            retry(state, who);
          } else {
            end(state, who, At::kLost);
          }
          return true;
        }
        if (rules_.replaces_file) {
          const std::int8_t file = new_lease(state);
          actor.own = file;
        } else {
          actor.own = actor.old;
        }
        state.leases[actor.own].holder = static_cast<std::int8_t>(who);
        state.leases[actor.own].incarnation = state.counter;
        state.leases[actor.own].shared |= 1 << who;
        actor.at = At::kRename;
        return true;
      case At::kRename:
        if (state.lease != actor.old && rules_.locks_reach_all_nodes && state.removals == 1) {
          state.wrong = 1;  // locks that reach all leave nobody between the look and this
        }
        state.lease = actor.own;
        actor.at = At::kClose;
        return true;
      case At::kClose:
        state.leases[actor.old].exclusive = kNone;
        actor.at = At::kStart;
        return true;
      case At::kStart:
        if (!holds(state, who)) {
          end(state, who, At::kLost);
          return true;
        }
        if (rules_.sweeps) {
          for (Actor& other : state.actors) other.has_partial = false;
        }
        actor.step = state.committed;
        if (rules_.new_metrics || state.metrics == kNone) state.metrics = state.next_metrics++;
        actor.metrics = state.metrics;
        state.told = state.committed;
        state.listed_by = static_cast<std::int8_t>(who);
        actor.at = actor.step < kLastStep ? At::kCheckStep : At::kRelease;
        return true;
      case At::kCheckStep:
        if (rules_.checks_steps && !holds(state, who)) {
          end(state, who, At::kLost);
          return true;
        }
        actor.at = At::kTell;
        return true;
      case At::kTell:
        ++actor.step;
        if (actor.metrics == state.metrics) {                 // else the file has no name any more
          if (actor.step != state.told + 1) state.wrong = 2;  // a step that another has told
          state.told = actor.step;
        }
        actor.has_partial = true;
        actor.at = At::kCheckCommit;
        return true;
      case At::kCheckCommit:
        if (!holds(state, who)) {
          end(state, who, At::kLost);
          return true;
        }
        actor.at = At::kPublish;
        return true;
      case At::kPublish:
        if (!actor.has_partial) {
          end(state, who, At::kLost);
          return true;
        }
        actor.has_partial = false;
        if (state.listed_by != who) state.wrong = 3;  // behind the back of who trains now
        state.committed = std::max(state.committed, actor.step);
        actor.at = actor.step < kLastStep ? At::kCheckStep : At::kRelease;
        return true;
      case At::kRelease:
        if (holds(state, who) && who < kClaimants) state.lease = kNone;  // not who has joined it
        end(state, who, At::kDone);
        return true;
      default:
        return false;
    }
  }

  Rules rules_;
};

// One who claims it, by a number for each way: a plain run, a supervisor, the requeued job of the
// claimant before.
State beginning(const std::vector<int>& kinds, bool one_node) {
  State state;
  for (std::size_t who = 0; who < kinds.size(); ++who) {
    Actor& actor = state.actors[who];
    actor.at = At::kOpen;
    actor.node = one_node ? 0 : static_cast<std::int8_t>(who);
    actor.supervises = actor.may_restart = kinds[who] == 1;
    if (kinds[who] == 2 && who > 0) actor.requeued_from = static_cast<std::int8_t>(who - 1);
  }
  state.actors[kActors - 1].node = state.actors[0].node;
  return state;
}

struct Explored {
  std::size_t states = 0;
  int wrong = 0;
  bool dead_end = false;
};

bool all_have_ended(const State& state) {
  for (const Actor& actor : state.actors) {
    if (!actor.ended()) return false;
  }
  return true;
}

Explored explore_all(const Model& model, const State& first) {
  Explored found;
  std::unordered_set<std::size_t> seen{first.key()};
  std::deque<State> open{first};
  while (!open.empty() && found.wrong == 0 && !found.dead_end) {
    const State state = open.front();
    open.pop_front();
    ++found.states;
    found.wrong = state.wrong;
    if (all_have_ended(state)) found.dead_end = !model.goes_on_from(state);
    for (const State& next : model.after(state)) {
      if (seen.insert(next.key()).second) open.push_back(next);
    }
  }
  return found;
}

Explored walk_at_random(const Model& model, State state, std::mt19937_64& random) {
  Explored found;
  for (;;) {
    ++found.states;
    found.wrong = state.wrong;
    const std::vector<State> next = model.after(state);
    if (found.wrong != 0 || next.empty()) break;
    state = next[random() % next.size()];
  }
  if (all_have_ended(state)) found.dead_end = !model.goes_on_from(state);
  return found;
}

class LeaseModel : public testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(Locks, LeaseModel, testing::Bool(), [](const auto& suite) {
  return suite.param ? "that_reach_all_nodes" : "that_end_at_the_node";
});

TEST_P(LeaseModel, no_order_of_two_claimants_has_two_writers_or_a_dead_end) {
  const Model model({.locks_reach_all_nodes = GetParam()});
  std::vector<std::vector<int>> all{{0, 0}, {1, GetParam() ? 0 : 2}};
  if (std::getenv("TRIREME_THOROUGH")) all.push_back({1, GetParam() ? 2 : 0});
  for (const std::vector<int>& kinds : all) {
    const bool one_node = GetParam() && kinds[1] == 0;
    const Explored found = explore_all(model, beginning(kinds, one_node));
    EXPECT_EQ(found.wrong, 0) << kinds[0] << kinds[1];
    EXPECT_FALSE(found.dead_end) << kinds[0] << kinds[1];
    EXPECT_GT(found.states, 10'000U);
  }
}

TEST_P(LeaseModel, no_random_order_of_three_has_either) {
  const Model model({.locks_reach_all_nodes = GetParam()});
  std::mt19937_64 random(7);
  for (int walk = 0; walk < 10'000; ++walk) {
    const std::vector<int> kinds{static_cast<int>(random() % 2), static_cast<int>(random() % 3),
                                 static_cast<int>(random() % 3)};
    State first = beginning(kinds, random() % 3 == 0);
    first.kills = 2;
    first.freezes = 2;
    const Explored found = walk_at_random(model, first, random);
    ASSERT_EQ(found.wrong, 0) << walk;
    ASSERT_FALSE(found.dead_end) << walk;
  }
}

// What it is for: each rule that is left out is found to be missing.
TEST(LeaseModelFinds, each_rule_that_is_left_out) {
  const State first = beginning({1, 2}, /*one_node=*/false);
  EXPECT_NE(explore_all(Model({.replaces_file = false}), first).wrong, 0);
  EXPECT_NE(explore_all(Model({.new_metrics = false}), first).wrong, 0);
  EXPECT_NE(explore_all(Model({.new_metrics = false, .checks_steps = false}), first).wrong, 0);
  EXPECT_NE(explore_all(Model({.sweeps = false}), first).wrong, 0);
}

}  // namespace
}  // namespace trireme::checkpoint::lease_model
