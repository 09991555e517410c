#include "model/ops/expert_rows.h"

#include "tests/model/ops/op_test.h"

namespace trireme::ops {
namespace {

using namespace trireme::test;  // NOLINT(google-build-using-namespace)

// Distinct choices of a token. Low experts are far more common than others, and the last has none.
Values choices_of(std::int64_t tokens, std::int64_t experts, std::int64_t top_k) {
  std::mt19937 random(7);
  Values all;
  for (std::int64_t token = 0; token < tokens; ++token) {
    Values own;
    while (std::ssize(own) < top_k) {
      const double share = static_cast<double>(random()) / 4294967296.0;
      const double expert = std::floor(share * share * static_cast<double>(experts - 1));
      if (std::find(own.begin(), own.end(), expert) == own.end()) own.push_back(expert);
    }
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

struct Sorted {
  Sorted(Stream& stream, std::int64_t tokens, std::int64_t experts, std::int64_t top_k)
      : choices(choices_of(tokens, experts, top_k)),
        starts(stream, {experts + 1}, DType::kI32),
        pairs(stream, {tokens * top_k}, DType::kI32),
        row_of(stream, {tokens, top_k}, DType::kI32),
        rows{.starts = starts, .pairs = pairs, .row_of = row_of} {
    order_by_expert(stream, rows, Held(stream, {tokens, top_k}, DType::kI32, choices));
    // The same by the standard library.
    expected_pairs.resize(choices.size());
    for (std::size_t pair = 0; pair < choices.size(); ++pair) {
      expected_pairs[pair] = static_cast<double>(pair);
    }
    std::stable_sort(expected_pairs.begin(), expected_pairs.end(), [&](double a, double b) {
      return choices[static_cast<std::size_t>(a)] < choices[static_cast<std::size_t>(b)];
    });
  }
  std::int64_t pair_of(std::int64_t row) const {
    return static_cast<std::int64_t>(expected_pairs[static_cast<std::size_t>(row)]);
  }
  Values choices, expected_pairs = {};
  Held starts, pairs, row_of;
  ExpertRows rows;
};

TEST(ExpertRows, pairs_are_sorted_by_expert_and_in_token_order) {
  on_every_platform([](Stream& stream) {
    struct Size {
      std::int64_t tokens = 0, experts = 0, top_k = 0;
    };
    for (const Size& size : {Size{1, 2, 1}, Size{8, 5, 2}, Size{100, 9, 8}, Size{700, 129, 6},
                             Size{1500, 512, 3}, Size{3001, 40, 2}}) {
      SCOPED_TRACE(say(size.tokens, " tokens, ", size.top_k, " of ", size.experts, " experts"));
      const Sorted sorted(stream, size.tokens, size.experts, size.top_k);
      EXPECT_EQ(sorted.pairs.values(), sorted.expected_pairs);
      Values row_of(sorted.choices.size()), starts(static_cast<std::size_t>(size.experts + 1));
      for (std::size_t row = 0; row < row_of.size(); ++row) {
        row_of[static_cast<std::size_t>(sorted.expected_pairs[row])] = static_cast<double>(row);
      }
      for (const double expert : sorted.choices) {
        for (auto e = static_cast<std::size_t>(expert) + 1; e < starts.size(); ++e) ++starts[e];
      }
      EXPECT_EQ(sorted.row_of.values(), row_of);
      EXPECT_EQ(sorted.starts.values(), starts);
    }
  });
}

// Calls body(stream, dtype, width, top_k).
template <class Body>
void for_every_width(const Body& body) {
  on_every_platform_and_dtype([&](Stream& stream, DType dtype) {
    for (const std::int64_t width : {1, 7, 64, 200, 1032, 4104}) {
      const std::int64_t top_k = width % 5 + 1;
      SCOPED_TRACE(say("width ", width));
      body(stream, dtype, width, top_k);
    }
  });
}

TEST(ExpertRows, gather_copies_the_tokens_of_rows) {
  for_every_width([](Stream& stream, DType dtype, std::int64_t width, std::int64_t top_k) {
    const std::int64_t tokens = 21;
    const Sorted sorted(stream, tokens, 9, top_k);
    const Values x = random_values(tokens * width, 1, dtype);
    const Held y(stream, {tokens * top_k, width}, dtype);
    gather_tokens(stream, y, Held(stream, {tokens, width}, dtype, x), sorted.rows);
    Values expected;
    for (std::int64_t row = 0; row < tokens * top_k; ++row) {
      const auto from = x.begin() + sorted.pair_of(row) / top_k * width;
      expected.insert(expected.end(), from, from + width);
    }
    EXPECT_EQ(y.values(), expected);
  });
}

TEST(ExpertRows, combine_sums_the_rows_of_tokens) {
  for_every_width([](Stream& stream, DType dtype, std::int64_t width, std::int64_t top_k) {
    const std::int64_t tokens = 21, rows = tokens * top_k;
    const DType sums = accumulator_of(dtype);
    const Sorted sorted(stream, tokens, 9, top_k);
    const Values x = random_values(rows * width, 1, dtype), weights = random_values(rows, 2, sums);
    const Held input(stream, {rows, width}, dtype, x), w(stream, {tokens, top_k}, sums, weights);
    for (const bool weighted : {false, true}) {
      Values expected(tokens * width, 0.0);
      for (std::int64_t row = 0; row < rows; ++row) {
        const std::int64_t pair = sorted.pair_of(row);
        for (std::int64_t i = 0; i < width; ++i) {
          expected[pair / top_k * width + i] += (weighted ? weights[pair] : 1) * x[row * width + i];
        }
      }
      const Held y(stream, {tokens, width}, dtype);
      combine_rows(stream, y, input, weighted ? Tensor(w) : Tensor{}, sorted.rows);
      expect_values(y, expected, 2 * static_cast<double>(top_k), 3);
    }
  });
}

TEST(ExpertRows, backward_of_weights_is_a_dot_product_and_weighs_both_rows) {
  for_every_width([](Stream& stream, DType dtype, std::int64_t width, std::int64_t top_k) {
    const std::int64_t tokens = 21, rows = tokens * top_k;
    const DType sums = accumulator_of(dtype);
    const Sorted sorted(stream, tokens, 9, top_k);
    Values act = random_values(rows * width, 1, dtype),
           dact = random_values(rows * width, 2, dtype);
    const Values weights = random_values(rows, 3, sums);
    const Held w(stream, {tokens, top_k}, sums, weights), dw(stream, {tokens, top_k}, sums);
    const Held a(stream, {rows, width}, dtype, act), da(stream, {rows, width}, dtype, dact);
    weigh_rows_backward(stream, dw, a, da, w, sorted.rows);
    Values expected(rows, 0.0);
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t pair = sorted.pair_of(row);
      for (std::int64_t i = row * width; i < (row + 1) * width; ++i) {
        expected[pair] += act[i] * dact[i];
        act[i] *= weights[pair];
        dact[i] *= weights[pair];
      }
    }
    expect_values(dw, expected, 10 + 2 * std::sqrt(static_cast<double>(width)),
                  std::sqrt(static_cast<double>(width)));
    expect_values(a, act, 1);
    expect_values(da, dact, 1);
  });
}

TEST(ExpertRows, backward_of_weights_in_order_of_the_rows_is_the_same) {
  for_every_width([](Stream& stream, DType dtype, std::int64_t width, std::int64_t top_k) {
    const std::int64_t tokens = 21, rows = tokens * top_k;
    const DType sums = accumulator_of(dtype);
    const Sorted sorted(stream, tokens, 9, top_k);
    const Values act = random_values(rows * width, 1, dtype),
                 dact = random_values(rows * width, 2, dtype),
                 weights = random_values(rows, 3, sums);
    Values in_order(rows);
    for (std::int64_t row = 0; row < rows; ++row) in_order[row] = weights[sorted.pair_of(row)];
    const Held w(stream, {tokens, top_k}, sums, weights), by_row(stream, {rows, 1}, sums, in_order);
    const Held dw(stream, {tokens, top_k}, sums), dby_row(stream, {rows, 1}, sums);
    const Held a(stream, {rows, width}, dtype, act), b(stream, {rows, width}, dtype, act);
    const Held da(stream, {rows, width}, dtype, dact), db(stream, {rows, width}, dtype, dact);
    weigh_rows_backward(stream, dw, a, da, w, sorted.rows);
    weigh_rows_backward(stream, dby_row, b, db, by_row, {});
    EXPECT_EQ(a.bits(), b.bits());
    EXPECT_EQ(da.bits(), db.bits());
    for (std::int64_t row = 0; row < rows; ++row) {
      EXPECT_EQ(dby_row.values()[row], dw.values()[sorted.pair_of(row)]);
    }
  });
}

// y = combine(act W^T) for a weight W that all experts share.
TEST(ExpertRows, backward_of_weights_is_the_derivative) {
  on_every_platform([](Stream& stream) {
    const std::int64_t tokens = 5, top_k = 2, rows = tokens * top_k, width = 3;
    const Sorted sorted(stream, tokens, 4, top_k);
    const Values act = random_values(rows * width, 1), weights = random_values(rows, 2);
    const Values dy = random_values(tokens * width, 3);
    const Held gradient(stream, {tokens, width}, DType::kF64, dy);
    const Held a(stream, {rows, width}, DType::kF64, act), da(stream, {rows, width}, DType::kF64);
    const Held w(stream, {tokens, top_k}, DType::kF64, weights);
    const Held dw(stream, {tokens, top_k}, DType::kF64), y(stream, {tokens, width}, DType::kF64);
    gather_tokens(stream, da, gradient, sorted.rows);
    weigh_rows_backward(stream, dw, a, da, w, sorted.rows);
    const Held x(stream, {rows, width}, DType::kF64, act);
    expect_gradient(
        [&](const Values& changed) {
          combine_rows(stream, y, x, Held(stream, {tokens, top_k}, DType::kF64, changed),
                       sorted.rows);
          return dot(y.values(), dy);
        },
        weights, dw.values());
    expect_gradient(
        [&](const Values& changed) {
          combine_rows(stream, y, Held(stream, {rows, width}, DType::kF64, changed), w,
                       sorted.rows);
          return dot(y.values(), dy);
        },
        act, da.values());
  });
}

TEST(ExpertRows, bits_do_not_depend_on_threads) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    const std::int64_t tokens = kTriesCuda ? 50 : 500, top_k = 4, rows = tokens * top_k;
    const std::int64_t width = 130;
    const DType sums = accumulator_of(dtype);
    const Sorted sorted(stream, tokens, 16, top_k);
    const Values act = random_values(rows * width, 1, dtype);
    const Held w(stream, {tokens, top_k}, sums, random_values(rows, 2, sums));
    const Held dy(stream, {tokens, width}, dtype, random_values(tokens * width, 3, dtype));
    expect_thread_independent([&] {
      const Held a(stream, {rows, width}, dtype, act), da(stream, {rows, width}, dtype);
      const Held dw(stream, {tokens, top_k}, sums), y(stream, {tokens, width}, dtype);
      combine_rows(stream, y, a, w, sorted.rows);
      gather_tokens(stream, da, dy, sorted.rows);
      weigh_rows_backward(stream, dw, a, da, w, sorted.rows);
      return joined({&y, &a, &da, &dw});
    });
  });
}

TEST(ExpertRows, of_other_sizes_are_an_error) {
  on_every_platform([](Stream& stream) {
    const Sorted sorted(stream, 4, 3, 2);
    const Held x(stream, {4, 8}, DType::kF32), y(stream, {8, 8}, DType::kF32);
    EXPECT_THROW(gather_tokens(stream, x, x, sorted.rows), Error);
    EXPECT_THROW(combine_rows(stream, x, x, {}, sorted.rows), Error);
    EXPECT_THROW(combine_rows(stream, x, y, x, sorted.rows), Error);
    EXPECT_THROW(weigh_rows_backward(stream, x, y, y, x, sorted.rows), Error);
    EXPECT_THROW(order_by_expert(stream, sorted.rows, Held(stream, {3, 2}, DType::kI32)), Error);
  });
}

}  // namespace
}  // namespace trireme::ops
