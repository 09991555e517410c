#include "parallel/pipeline/simulate.h"

#include <gtest/gtest.h>

#include "parallel/pipeline/check.h"
#include "tests/parallel/pipeline/cases.h"

namespace trireme::test {
namespace {

Timeline timed(const Schedule& schedule, double transfer = 0) {
  ActionCosts costs = ActionCosts::unit(schedule.stages);
  costs.transfer = transfer;
  return simulate(schedule, costs);
}

TEST(Simulate, the_bubble_is_what_the_papers_say) {
  for_each_case([](const Case& c) {
    if (find_schedule(c.name)->bubble_divisor != 1) return;
    const double p = c.shape.ranks;
    const double work = c.shape.micro_batches * c.shape.virtual_stages;
    const Timeline timeline = timed(c.schedule);
    EXPECT_NEAR(timeline.idle_fraction(), (p - 1) / (work + p - 1), 1e-12) << c.text();
    EXPECT_NEAR(timeline.overhead(), (p - 1) / work, 1e-12) << c.text();
    EXPECT_EQ(timeline.makespan, 3 * (work + p - 1)) << c.text();
  });
}

TEST(Simulate, ranks_that_share_nothing_do_as_those_alone) {
  for_each_case([](const Case& c) {
    ActionCosts costs = ActionCosts::unit(c.schedule.stages);
    costs.transfer = 0.25;
    const Timeline alone = simulate(c.schedule, costs);
    const Timeline sharing = simulate_sharing(c.schedule, costs, [](int) { return 1.0; });
    EXPECT_EQ(sharing.makespan, alone.makespan) << c.text();
    EXPECT_NEAR(sharing.busy, alone.busy, 1e-9 * alone.busy) << c.text();
    for (std::size_t rank = 0; rank < alone.ranks.size(); ++rank) {
      for (std::size_t i = 0; i < alone.ranks[rank].size(); ++i) {
        EXPECT_EQ(sharing.ranks[rank][i].start, alone.ranks[rank][i].start) << c.text();
      }
    }
  });
}

// A machine that all share is never idle, whatever the schedule.
TEST(Simulate, a_rank_that_waits_leaves_its_share_to_the_others) {
  for_each_case([](const Case& c) {
    const ActionCosts costs = ActionCosts::unit(c.schedule.stages);
    const double ranks = c.shape.ranks;
    const Timeline timeline =
        simulate_sharing(c.schedule, costs, [&](int busy) { return ranks / busy; });
    const double work = simulate(c.schedule, costs).busy;
    EXPECT_NEAR(timeline.makespan, work / ranks, 1e-9 * work) << c.text();
  });
}

TEST(Simulate, zero_bubble_waits_less_than_1f1b_on_two_ranks_or_more) {
  for (int p = 2; p <= 16; ++p) {
    for (int m = 1; m <= 64; ++m) {
      const Timeline zero = timed(zero_bubble_h1({p, m}));
      EXPECT_LT(zero.idle_fraction(), timed(one_forward_one_backward({p, m})).idle_fraction())
          << p << " ranks, " << m << " micro-batches";
      // (p - 1) (F + I - W), once there are enough weight halves to fill with.
      if (m < p) continue;
      EXPECT_EQ(zero.makespan, 3 * m + p - 1) << p << " ranks, " << m << " micro-batches";
    }
  }
}

TEST(Simulate, a_timeline_obeys_the_schedule) {
  Random random(7);
  for (int i = 0; i < 100; ++i) {
    const Case c = random_case(random);
    const double latency = 0.25;
    const Timeline timeline = timed(c.schedule, latency);
    std::map<std::string, double> ends;
    std::map<std::string, std::size_t> homes;
    for (std::size_t r = 0; r < c.schedule.ranks.size(); ++r) {
      double free = 0;
      for (std::size_t k = 0; k < c.schedule.ranks[r].size(); ++k) {
        const Action& action = c.schedule.ranks[r][k];
        EXPECT_GE(timeline.ranks[r][k].start, free);
        free = timeline.ranks[r][k].end;
        EXPECT_EQ(free - timeline.ranks[r][k].start,
                  action.kind == Action::Kind::kBackward ? 2 : 1);
        ends[say(action)] = free;
        homes[say(action)] = r;
      }
    }
    for (std::size_t r = 0; r < c.schedule.ranks.size(); ++r) {
      for (std::size_t k = 0; k < c.schedule.ranks[r].size(); ++k) {
        const Action& action = c.schedule.ranks[r][k];
        if (action.kind == Action::Kind::kBackwardWeight) continue;
        const int step = action.kind == Action::Kind::kForward ? -1 : 1;
        const auto source =
            ends.find(say(Action{action.kind, action.stage + step, action.micro_batch}));
        if (source == ends.end()) continue;
        const bool elsewhere = homes[source->first] != r;
        EXPECT_GE(timeline.ranks[r][k].start, source->second + (elsewhere ? latency : 0))
            << c.text() << ": " << action;
      }
    }
  }
}

TEST(Simulate, a_slow_stage_sets_the_pace) {
  const Schedule schedule = one_forward_one_backward({2, 8});
  ActionCosts costs = ActionCosts::unit(2);
  costs.forward[1] = costs.backward_input[1] = costs.backward_weight[1] = 2;
  const Timeline timeline = simulate(schedule, costs);
  // The second rank works without a break once the first forward has come; the first
  // then still has its last backward to do.
  EXPECT_EQ(timeline.makespan, 1 + 8 * 6 + 2);
  EXPECT_EQ(timeline.busy, 8 * 3 + 8 * 6);
  EXPECT_DOUBLE_EQ(timeline.idle_fraction(0), 1 - 24.0 / 51);
  EXPECT_DOUBLE_EQ(timeline.idle_fraction(1), 1 - 48.0 / 51);
}

TEST(Simulate, two_outboxes_hold_up_no_published_schedule) {
  Random random(9);
  for (int i = 0; i < 200; ++i) {
    const Case c = random_case(random);
    EXPECT_EQ(outboxes_needed(c.schedule), 2) << c.text();
  }
}

TEST(Simulate, a_schedule_that_reads_gradients_late_needs_more_outboxes) {
  Schedule schedule = one_forward_one_backward({2, 12});
  schedule.ranks[0] = gpipe({2, 12}).ranks[0];
  ASSERT_EQ(complaint(schedule), "");
  // The first rank reads the first gradient at 12; the second starts one more at 2, 5, 8, 11.
  EXPECT_EQ(outboxes_needed(schedule), 4);
}

TEST(Simulate, the_drawing_shows_each_rank_on_its_line) {
  const Schedule schedule = one_forward_one_backward({2, 2});
  EXPECT_EQ(draw(schedule, timed(schedule), 27),
            "rank 0 |F0-F1-......B0----...B1----|\n"
            "rank 1 |...F0-B0----F1-B1----......|\n");
}

TEST(Simulate, the_drawing_names_the_stage_where_a_rank_has_several) {
  const Schedule schedule = interleaved_one_forward_one_backward({2, 2, 2});
  const Timeline timeline = timed(schedule);
  EXPECT_EQ(draw(schedule, timeline, 3 * static_cast<int>(timeline.makespan)),
            "rank 0 |0F00F12F02F1......2B0---...2B1---0B0---0B1---|\n"
            "rank 1 |...1F01F13F03B0---3F13B1---1B0---1B1---......|\n");
}

}  // namespace
}  // namespace trireme::test
