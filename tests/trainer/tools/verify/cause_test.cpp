#include "trainer/tools/verify/cause.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace trireme::verify {
namespace {

std::vector<double> numbers(double seed, std::size_t count = 12) {
  std::vector<double> values;
  for (std::size_t i = 0; i < count; ++i) {
    values.push_back(std::sin(seed * 7 + static_cast<double>(i) * 1.7));
  }
  return values;
}

std::vector<double> times(std::vector<double> values, double factor) {
  for (double& value : values) value *= factor;
  return values;
}

// A 6 x 2 parameter in heads of two rows, whole on both tensor ranks.
Evidence evidence(const std::vector<double>& on_first, const std::vector<double>& on_second) {
  const std::vector<double> nothing(on_first.size(), std::nan(""));
  Evidence e{.tensor = "x",
             .shape = {6, 2},
             .rows = 6,
             .columns = 2,
             .all_rows = true,
             .part_rows = 2,
             .tolerance = 1e-6,
             .expected = numbers(1),
             .holders = {},
             .by_micro_batch = {},
             .before = {},
             .layout = {.tensor = 2, .micro_batches = 3, .data_rank_of = {0, 0, 0}}};
  e.holders.push_back({{0, 0, 0, 0}, on_first, nothing, true});
  e.holders.push_back({{1, 0, 0, 1}, on_second, nothing, false});
  return e;
}

std::string kind_of(const std::optional<Cause>& cause) {
  return cause ? cause->kind : "";
}

TEST(Cause, of_terms_whose_sum_is_right_is_a_missing_sum) {
  std::vector<double> rest = numbers(1);
  const std::vector<double> part = numbers(5);
  for (std::size_t i = 0; i < rest.size(); ++i) rest[i] -= part[i];
  const auto cause = cause_of_gradient(evidence(part, rest));
  EXPECT_EQ(kind_of(cause), "missing-sum");
  EXPECT_NE(cause.value_or(Cause{}).text.find("'tensor'"), std::string::npos);
}

TEST(Cause, of_terms_of_data_and_context_ranks_names_both_axes) {
  Evidence e = evidence(numbers(1), numbers(2));
  e.layout = {.data = 2, .tensor = 1, .context = 2, .micro_batches = 2, .data_rank_of = {0, 1}};
  e.holders.push_back(e.holders[0]);
  e.holders.push_back(e.holders[1]);
  for (int rank = 0; rank < 4; ++rank) {
    Evidence::Holder& holder = e.holders[static_cast<std::size_t>(rank)];
    holder.coordinates = {.rank = rank, .data = rank / 2, .context = rank % 2};
    holder.owned = numbers(1 + rank);
    holder.is_primary = rank == 0;
  }
  std::ranges::fill(e.expected, 0);
  for (const Evidence::Holder& holder : e.holders) {
    std::ranges::transform(e.expected, holder.owned, e.expected.begin(), std::plus<>());
  }
  const auto cause = cause_of_gradient(e);
  EXPECT_EQ(kind_of(cause), "missing-sum");
  EXPECT_NE(cause.value_or(Cause{}).text.find("'data' and 'context'"), std::string::npos);
}

TEST(Cause, of_a_constant_ratio_is_named_by_its_size) {
  const auto of = [](double factor) {
    const std::vector<double> values = times(numbers(1), factor);
    return kind_of(cause_of_gradient(evidence(values, values)));
  };
  EXPECT_EQ(of(2), "counted-twice");  // tensor ranks
  EXPECT_EQ(of(3), "counted-twice");  // micro-batches
  EXPECT_EQ(of(0.5), "divided-twice");
  EXPECT_EQ(of(1.0 / 3), "divided-twice");
  EXPECT_EQ(of(1.25), "scaled");
  EXPECT_EQ(of(0), "no-gradient");
}

TEST(Cause, of_a_ratio_near_1_is_a_micro_batch_too_many_or_too_few) {
  const LayoutSizes layout{.data = 2, .micro_batches = 64};
  const auto kind = [&](double ratio) { return kind_of(cause_of_ratio(ratio, layout, 0.005)); };
  EXPECT_EQ(kind(0.968), "divided-by-one-more");
  EXPECT_EQ(kind(1.03), "divided-by-one-less");
  EXPECT_EQ(kind(1.1), "scaled");
  EXPECT_EQ(kind(1.003), "");
  const auto cause = cause_of_ratio(0.968, layout, 0.005);
  EXPECT_NE(cause.value_or(Cause{}).text.find("32 micro-batches of a rank"), std::string::npos);
}

TEST(Cause, of_an_update_is_its_learning_rate_or_its_decay) {
  const std::vector<double> before = numbers(1), update = times(numbers(2), 1e-3);
  const auto of = [&](double rate, double decay) {
    std::vector<double> after = before, right = before;
    for (std::size_t i = 0; i < before.size(); ++i) {
      after[i] -= rate * update[i] + decay * 1e-4 * before[i];
      right[i] -= update[i] + 1e-4 * before[i];
    }
    Evidence e = evidence(after, after);
    e.quantity = Quantity::kMaster;
    e.expected = right;
    e.before = before;
    e.decay = 1e-4;
    e.update_tolerance = 1e-7;
    e.tolerance = 1e-5;
    return cause_of_weight(e).value_or(Cause{});
  };
  EXPECT_EQ(of(0.5, 0.5).kind, "learning-rate");
  EXPECT_NE(of(0.5, 0.5).text.find("0.5 times"), std::string::npos);
  EXPECT_EQ(of(1, 0).kind, "decay");
  EXPECT_NE(of(1, 0).text.find("not applied"), std::string::npos);
  EXPECT_NE(of(1, 2).text.find("2 times"), std::string::npos);
}

TEST(Cause, of_rows_in_other_places_is_told) {
  const std::vector<double> right = numbers(1);
  std::vector<double> heads = right, rows = right;
  std::swap_ranges(heads.begin(), heads.begin() + 4, heads.begin() + 8);
  EXPECT_EQ(kind_of(cause_of_weight(evidence(heads, heads))), "swapped-parts");
  std::copy(right.begin() + 2, right.end(), rows.begin());
  EXPECT_EQ(kind_of(cause_of_weight(evidence(rows, rows))), "shifted-rows");
}

TEST(Cause, of_a_combination_of_micro_batches_is_which_are_missing_or_doubled) {
  Evidence e = evidence(numbers(1), numbers(1));
  e.by_micro_batch = {numbers(2), numbers(3.1), numbers(4.3, 12)};
  const auto sum = [&](double a, double b, double c) {
    std::vector<double> values(12);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = a * e.by_micro_batch[0][i] + b * e.by_micro_batch[1][i] +
                  c * e.by_micro_batch[2][i] * (i % 2 == 0 ? 1 : 1);
    }
    return values;
  };
  // A third term that is no combination of the first two.
  for (std::size_t i = 0; i < 12; ++i) e.by_micro_batch[2][i] += 0.3 * static_cast<double>(i % 3);
  e.expected = sum(1, 1, 1);
  e.holders[0].owned = e.holders[1].owned = sum(1, 0, 1);
  const auto lost = cause_of_gradient(e);
  EXPECT_EQ(kind_of(lost), "lost-micro-batch");
  EXPECT_NE(lost.value_or(Cause{}).text.find("micro-batch 1 missing"), std::string::npos);
  e.holders[0].owned = e.holders[1].owned = sum(2, 0, 1);
  EXPECT_EQ(kind_of(cause_of_gradient(e)), "doubled-micro-batch");
}

TEST(Cause, of_routers_losses_that_count_too_often_is_how_often) {
  Evidence e = evidence(numbers(1), numbers(1));
  e.of_router_losses = numbers(2);
  std::vector<double> values = numbers(1);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] += 2 * e.of_router_losses[i];
  e.holders[0].owned = e.holders[1].owned = values;
  const auto cause = cause_of_gradient(e);
  EXPECT_EQ(kind_of(cause), "router-losses");
  EXPECT_NE(cause.value_or(Cause{}).text.find("3 times"), std::string::npos);
  EXPECT_NE(cause.value_or(Cause{}).text.find("micro-batches per rank"), std::string::npos);
}

TEST(Cause, of_an_experts_replicas_names_their_groups) {
  std::vector<double> rest = numbers(1);
  const std::vector<double> part = numbers(5);
  for (std::size_t i = 0; i < rest.size(); ++i) rest[i] -= part[i];
  Evidence e = evidence(part, rest);
  e.tensor = "layers.0.mlp.experts.3.down.weight";
  e.layout = {.data = 4, .expert = 2, .micro_batches = 4, .data_rank_of = {0, 1, 2, 3}};
  e.holders[0].coordinates = {.rank = 0, .data = 0};
  e.holders[1].coordinates = {.rank = 2, .data = 2};
  const auto cause = cause_of_gradient(e);
  EXPECT_EQ(kind_of(cause), "missing-sum");
  EXPECT_NE(cause.value_or(Cause{}).text.find("2 replicas of this expert"), std::string::npos);
}

TEST(Cause, of_copies_that_did_not_move_is_an_update_that_was_not_published) {
  Evidence e = evidence(numbers(1), numbers(9));
  e.quantity = Quantity::kValue;
  EXPECT_EQ(kind_of(cause_of_weight(e)), "copies-differ");
  e.before = numbers(9);
  EXPECT_EQ(kind_of(cause_of_weight(e)), "not-published");
}

TEST(Cause, is_not_made_up_where_nothing_fits) {
  const std::vector<double> other = numbers(77);
  EXPECT_EQ(kind_of(cause_of_gradient(evidence(other, other))), "");
}

}  // namespace
}  // namespace trireme::verify
