#include "model/ops/embedding.h"

#include "tests/model/ops/op_test.h"

namespace trireme::ops {
namespace {

using namespace trireme::test;  // NOLINT(google-build-using-namespace)

// A holder of rows [kFirst, kFirst + kRows) of a larger vocabulary; some ids lie
// outside, and low ids are far more common than others; every third one is the same.
constexpr std::int64_t kRows = 37, kFirst = 10;

Values ids_of(std::int64_t tokens) {
  std::mt19937 random(5);
  Values ids;
  for (std::int64_t i = 0; i < tokens; ++i) {
    const double share = static_cast<double>(random()) / 4294967296.0;
    ids.push_back(i % 3 == 2 ? kFirst + 3 : std::floor(share * share * share * 60));
  }
  return ids;
}

// The row held here of a token, or -1.
std::int64_t row_of(const Values& ids, std::int64_t token) {
  const auto row = static_cast<std::int64_t>(ids[token]) - kFirst;
  return row >= 0 && row < kRows ? row : -1;
}

template <class Body>
void for_every_embedding_size(const Body& body) {
  for (const std::int64_t tokens : {0, 1, 5, 300}) {
    for (const std::int64_t width : {1, 3, 17, 64, 100}) {
      for (const Accumulate accumulate : {Accumulate::kReplace, Accumulate::kAdd}) {
        SCOPED_TRACE(
            say(tokens, " tokens x ", width, accumulate == Accumulate::kAdd ? " added" : ""));
        body(tokens, width, accumulate);
      }
    }
  }
}

TEST(Embedding, rows_held_here_are_looked_up_and_others_are_zero) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    for_every_embedding_size([&](std::int64_t tokens, std::int64_t width, Accumulate accumulate) {
      const Values rows = random_values(kRows * width, 1, dtype), ids = ids_of(tokens);
      const Values before = random_values(tokens * width, 2, dtype);
      const Held table(stream, {kRows, width}, dtype, rows);
      const Held token_ids(stream, {tokens}, DType::kI32, ids);
      const Held y(stream, {tokens, width}, dtype,
                   accumulate == Accumulate::kAdd ? before : Values{});
      embedding(stream, y, table, token_ids, kFirst, accumulate);
      Values expected = accumulate == Accumulate::kAdd ? before : Values(tokens * width, 0.0);
      for (std::int64_t token = 0; token < tokens; ++token) {
        const std::int64_t row = row_of(ids, token);
        for (std::int64_t i = 0; i < width && row >= 0; ++i) {
          double& value = expected[token * width + i];
          value = rounded(value + rows[row * width + i], dtype);
        }
      }
      EXPECT_EQ(y.values(), expected);
    });
  });
}

TEST(Embedding, backward_adds_tokens_in_their_order_and_clears_unused_rows) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    for_every_embedding_size([&](std::int64_t tokens, std::int64_t width, Accumulate accumulate) {
      const DType sums = accumulator_of(dtype);
      const Values dy = random_values(tokens * width, 1, dtype), ids = ids_of(tokens);
      const Values before = random_values(kRows * width, 2, sums);
      const Held gradient(stream, {tokens, width}, dtype, dy);
      const Held token_ids(stream, {tokens}, DType::kI32, ids);
      const Held dtable(stream, {kRows, width}, sums,
                        accumulate == Accumulate::kAdd ? before : Values{});
      Arena scratch(1 << 16, stream.device());
      embedding_backward(stream, scratch, dtable, gradient, token_ids, kFirst, accumulate);
      EXPECT_EQ(scratch.used(), 0u);
      // Rounded after every token, so that the order shows: equal, not near.
      Values expected = accumulate == Accumulate::kAdd ? before : Values(kRows * width, 0.0);
      for (std::int64_t token = 0; token < tokens; ++token) {
        const std::int64_t row = row_of(ids, token);
        for (std::int64_t i = 0; i < width && row >= 0; ++i) {
          double& value = expected[row * width + i];
          value = rounded(value + dy[token * width + i], sums);
        }
      }
      EXPECT_EQ(dtable.values(), expected);
    });
  });
}

TEST(Embedding, backward_is_the_derivative) {
  on_every_platform([](Stream& stream) {
    const Values rows = random_values(kRows * 3, 1), ids = ids_of(20), dy = random_values(60, 2);
    const Held token_ids(stream, {20}, DType::kI32, ids), y(stream, {20, 3}, DType::kF64);
    const Held gradient(stream, {20, 3}, DType::kF64, dy), dtable(stream, {kRows, 3}, DType::kF64);
    Arena scratch(1 << 16, stream.device());
    embedding_backward(stream, scratch, dtable, gradient, token_ids, kFirst, Accumulate::kReplace);
    expect_gradient(
        [&](const Values& changed) {
          embedding(stream, y, Held(stream, {kRows, 3}, DType::kF64, changed), token_ids, kFirst,
                    Accumulate::kReplace);
          return dot(y.values(), dy);
        },
        rows, dtable.values());
  });
}

TEST(Embedding, bits_do_not_depend_on_threads) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    const std::int64_t tokens = 2000, width = 65;
    const Held gradient(stream, {tokens, width}, dtype, random_values(tokens * width, 1, dtype));
    const Held table(stream, {kRows, width}, dtype, random_values(kRows * width, 2, dtype));
    const Held ids(stream, {tokens}, DType::kI32, ids_of(tokens));
    expect_thread_independent([&] {
      const Held dtable(stream, {kRows, width}, accumulator_of(dtype));
      const Held y(stream, {tokens, width}, dtype);
      Arena scratch(1 << 16, stream.device());
      embedding_backward(stream, scratch, dtable, gradient, ids, kFirst, Accumulate::kReplace);
      embedding(stream, y, table, ids, kFirst, Accumulate::kReplace);
      return joined({&dtable, &y});
    });
  });
}

}  // namespace
}  // namespace trireme::ops
