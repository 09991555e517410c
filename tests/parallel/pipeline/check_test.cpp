#include "parallel/pipeline/check.h"

#include <gtest/gtest.h>

#include "parallel/pipeline/action_table.h"
#include "parallel/pipeline/slots.h"
#include "tests/parallel/pipeline/cases.h"
#include "tests/parallel/pipeline/second_judge.h"

namespace trireme::test {
namespace {

using Kind = Action::Kind;
constexpr int kMutants = 1000;

std::vector<Action>& random_list(Random& random, Schedule& schedule) {
  return schedule.ranks[pick(random, schedule.ranks.size())];
}

TEST(Schedule, every_published_one_passes_the_checker) {
  int cases = 0;
  for_each_case([&](const Case& c) {
    ++cases;
    EXPECT_EQ(complaint(c.schedule), "") << c.text();
  });
  RecordProperty("cases", cases);
  // All with one stage a rank, and some with 2, 3 and 4, of these some where the ranks divide the
  // micro-batches.
  int divisible = 0, expected = 0;
  for (int ranks = 1; ranks <= 16; ++ranks) divisible += 64 / ranks;
  for (const NamedSchedule& named : named_schedules()) {
    expected += 16 * 64;
    if (named.has_virtual_stages) expected += 3 * (named.needs_whole_rounds ? divisible : 16 * 64);
  }
  EXPECT_EQ(cases, expected);
}

TEST(Schedule, the_judges_agree_on_published_ones) {
  Random random(1);
  for (int i = 0; i < 200; ++i) {
    const Case c = random_case(random);
    EXPECT_TRUE(SecondJudge(c.schedule).finds_it_sound()) << c.text();
  }
}

TEST(Schedule, a_dropped_action_is_found) {
  Random random(2);
  for (int i = 0; i < kMutants; ++i) {
    Case c = random_case(random);
    std::vector<Action>& list = random_list(random, c.schedule);
    const std::size_t at = pick(random, list.size());
    const std::string dropped = say(list[at]);
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(at));
    EXPECT_NE(complaint(c.schedule), "") << c.text() << " without " << dropped;
  }
}

TEST(Schedule, a_duplicated_action_is_found) {
  Random random(3);
  for (int i = 0; i < kMutants; ++i) {
    Case c = random_case(random);
    const std::vector<Action>& from = random_list(random, c.schedule);
    const Action copied = from[pick(random, from.size())];
    std::vector<Action>& into = random_list(random, c.schedule);
    const std::size_t at = pick(random, into.size() + 1);
    into.insert(into.begin() + static_cast<std::ptrdiff_t>(at), copied);
    EXPECT_NE(complaint(c.schedule), "") << c.text() << " with another " << copied << " at " << at;
  }
}

// Not every swap does harm: a weight half may come earlier, say. The second judge says which do.
TEST(Schedule, two_swapped_actions_are_found_unless_they_do_no_harm) {
  Random random(4);
  int found = 0;
  int harmless = 0;
  while (found < kMutants) {
    Case c = random_case(random);
    std::vector<Action>& list = random_list(random, c.schedule);
    const std::size_t a = pick(random, list.size());
    // HostPeers half of the time: these are the swaps that may do no harm.
    const std::size_t b = random() % 2 == 0 ? (a + 1) % list.size() : pick(random, list.size());
    if (list[a] == list[b]) continue;
    std::swap(list[a], list[b]);
    const std::string wrong = complaint(c.schedule);
    EXPECT_EQ(wrong.empty(), SecondJudge(c.schedule).finds_it_sound())
        << c.text() << " with " << list[b] << " and " << list[a] << " swapped: " << wrong;
    ++(wrong.empty() ? harmless : found);
  }
  RecordProperty("harmless", harmless);
  EXPECT_GT(harmless, 0);
  EXPECT_LT(harmless, found);
}

// Neighbouring actions of one kind but of two stages of one rank: each stage keeps its
// order, but what the rank sends, or receives, has another one.
TEST(Schedule, messages_in_another_order_than_their_receiver_expects_are_found) {
  Random random(5);
  for (int found = 0; found < kMutants;) {
    Case c = random_case(random);
    if (c.shape.virtual_stages == 1 || c.shape.ranks == 1) continue;
    std::vector<Action>& list = random_list(random, c.schedule);
    std::vector<std::size_t> candidates;
    for (std::size_t i = 0; i + 1 < list.size(); ++i) {
      if (list[i].kind == list[i + 1].kind && list[i].stage != list[i + 1].stage) {
        candidates.push_back(i);
      }
    }
    if (candidates.empty()) continue;
    const std::size_t at = candidates[pick(random, candidates.size())];
    std::swap(list[at], list[at + 1]);
    EXPECT_NE(complaint(c.schedule).find(" sends rank "), std::string::npos)
        << c.text() << " with " << list[at + 1] << " and " << list[at]
        << " swapped: " << complaint(c.schedule);
    ++found;
  }
}

// Of list[first, last] the backwards go before the forwards.
void put_backwards_first(std::vector<Action>& list, std::size_t first, std::size_t last) {
  std::stable_partition(list.begin() + static_cast<std::ptrdiff_t>(first),
                        list.begin() + static_cast<std::ptrdiff_t>(last) + 1,
                        [](const Action& a) { return a.kind != Kind::kForward; });
}

// Rank `mine` gives a forward only after it has got a gradient, which rank `other` gives only
// after it has got that forward. No other order changes: neither of forwards, nor of
// backwards, nor of a micro-batch's forward and backward.
bool make_a_deadlock(Random& random, Schedule& schedule) {
  const ActionTable table(schedule);
  const auto mine = static_cast<int>(pick(random, schedule.ranks.size()));
  std::vector<Action>& list = schedule.ranks[mine];
  const std::size_t gradient = pick(random, list.size());
  if (!list[gradient].makes_input_gradient()) return false;
  const auto source = table.source_of(list[gradient]);
  if (!source || source->rank == mine) return false;
  for (std::size_t first = gradient; first-- > 0;) {
    if (list[first].kind != Kind::kForward) continue;
    const auto back = table.input_gradient(list[first].stage, list[first].micro_batch);
    if (static_cast<std::size_t>(back->index) <= gradient) return false;
    const auto reader = table.reader_of(list[first]);
    if (!reader || reader->rank != source->rank || reader->index >= source->index) continue;
    put_backwards_first(list, first, gradient);
    return true;
  }
  return false;
}

TEST(Schedule, ranks_that_wait_for_each_other_are_found) {
  Random random(6);
  for (int found = 0; found < kMutants;) {
    Case c = random_case(random);
    if (!make_a_deadlock(random, c.schedule)) continue;
    EXPECT_NE(complaint(c.schedule).find("waits forever"), std::string::npos)
        << c.text() << ": " << complaint(c.schedule);
    ++found;
  }
}

TEST(Schedule, names_of_nothing_are_found) {
  const Schedule sound = one_forward_one_backward({2, 4});
  const auto complaint_with = [&](const Action& action) {
    Schedule schedule = sound;
    schedule.ranks[1][2] = action;
    return complaint(schedule);
  };
  EXPECT_EQ(complaint_with({Kind::kForward, 2, 1}),
            "rank 1, action 2 (2F1): there is no stage 2 of 2");
  EXPECT_EQ(complaint_with({Kind::kForward, -1, 1}),
            "rank 1, action 2 (-1F1): there is no stage -1 of 2");
  EXPECT_EQ(complaint_with({Kind::kForward, 1, 4}),
            "rank 1, action 2 (1F4): there is no micro-batch 4 of 4");
  EXPECT_EQ(complaint_with({Kind::kForward, 0, 1}),
            "rank 1, action 2 (0F1): stage 0 is on rank 0 too");
  EXPECT_EQ(complaint({}), "there are 0 ranks, 0 stages and 0 micro-batches");
}

TEST(Schedule, a_complaint_says_what_is_wrong) {
  const auto complaint_of = [](std::vector<std::vector<Action>> ranks) {
    return complaint({static_cast<int>(ranks.size()), 2, std::move(ranks)});
  };
  EXPECT_EQ(
      complaint_of(
          {{{Kind::kForward, 0, 0}, {Kind::kBackwardWeight, 0, 0}, {Kind::kBackwardInput, 0, 0}}}),
      "rank 0, action 1 (0W0): the weight half comes before the input half");
  EXPECT_EQ(complaint_of({{{Kind::kForward, 0, 0},
                           {Kind::kBackwardInput, 0, 0},
                           {Kind::kForward, 0, 1},
                           {Kind::kBackward, 0, 1}}}),
            "stage 0 never takes micro-batch 0 backward, the weight half");
  EXPECT_EQ(complaint_of({{{Kind::kForward, 0, 1},
                           {Kind::kForward, 0, 0},
                           {Kind::kBackward, 0, 0},
                           {Kind::kBackward, 0, 1}}}),
            "rank 0, action 0 (0F1): stage 0 must take its micro-batches in order, so that "
            "gradients have one order of summation");
  // The first stage wants both gradients before it gives the second micro-batch.
  EXPECT_EQ(complaint_of({{{Kind::kForward, 0, 0},
                           {Kind::kBackward, 0, 0},
                           {Kind::kForward, 0, 1},
                           {Kind::kBackward, 0, 1}},
                          {{Kind::kForward, 1, 0},
                           {Kind::kForward, 1, 1},
                           {Kind::kBackward, 1, 0},
                           {Kind::kBackward, 1, 1}}}),
            "rank 0, action 1 (0B0) waits forever for 1B0 of rank 1");
}

TEST(Schedule, one_forward_one_backward_holds_the_fewest_micro_batches) {
  for (int ranks = 1; ranks <= 16; ++ranks) {
    for (int m = 1; m <= 64; ++m) {
      const std::vector<int> held = peak_in_flight(one_forward_one_backward({ranks, m}));
      for (int rank = 0; rank < ranks; ++rank) {
        EXPECT_EQ(held[rank], std::min(ranks - rank, m))
            << "rank " << rank << " of " << ranks << ", " << m << " micro-batches";
      }
    }
  }
}

TEST(Schedule, zero_bubble_holds_no_more_on_any_rank_than_1f1b_on_its_first) {
  for (int ranks = 1; ranks <= 16; ++ranks) {
    for (int m = 1; m <= 64; ++m) {
      for (const int held : peak_in_flight(zero_bubble_h1({ranks, m}))) {
        EXPECT_LE(held, std::min(ranks, m)) << ranks << " ranks, " << m << " micro-batches";
      }
    }
  }
}

TEST(Schedule, interleaving_one_stage_a_rank_is_1f1b) {
  EXPECT_EQ(interleaved_one_forward_one_backward({4, 7, 1}), one_forward_one_backward({4, 7}));
}

TEST(Schedule, defers_weight_gradients_if_its_entry_says_so) {
  for_each_case([](const Case& c) {
    EXPECT_EQ(defers_weight_gradients(c.schedule), find_schedule(c.name)->defers_weight_gradients)
        << c.text();
  });
}

TEST(Schedule, a_shape_it_is_not_defined_for_is_refused_in_words) {
  const auto refusal = [](const std::string& name, const PipelineShape& shape) {
    try {
      make_schedule(name, shape);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_EQ(refusal("1F1B", {4, 8, 2}),
            "schedule 1F1B has one stage per rank, but virtual_stages is 2: set it to 1, or use "
            "Interleaved1F1B");
  EXPECT_EQ(refusal("Interleaved1F1B", {4, 10, 2}),
            "schedule Interleaved1F1B needs micro-batches in multiples of pipeline = 4, but a step "
            "has 10: change training.global_batch_size or training.local_batch_size so that a step "
            "has 8 or 12");
  EXPECT_EQ(
      refusal("Interleaved1F1B", {4, 3, 2}),
      "schedule Interleaved1F1B needs micro-batches in multiples of pipeline = 4, but a step has "
      "3: change training.global_batch_size or training.local_batch_size so that a step has 4");
  std::string known;
  for (const NamedSchedule& named : named_schedules()) known += say(named.name, ", ");
  EXPECT_EQ(refusal("2F2B", {4, 3, 2}),
            say("unknown schedule \"2F2B\": use one of ", known, "or a file FILE.csv"));
  EXPECT_EQ(refusal("Interleaved1F1B", {4, 8, 2}), "none");
}

}  // namespace
}  // namespace trireme::test
