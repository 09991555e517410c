#include "model/ops/rope.h"

#include "tests/model/ops/op_test.h"

namespace trireme::ops {
namespace {

using namespace trireme::test;  // NOLINT(google-build-using-namespace)

constexpr std::int64_t kPositions = 50;

Values table_of(std::int64_t width) {
  Values table(kPositions * width);
  for (std::int64_t position = 0; position < kPositions; ++position) {
    for (std::int64_t i = 0; i < width / 2; ++i) {
      const double angle =
          static_cast<double>(position) *
          std::pow(10000.0, -2 * static_cast<double>(i) / static_cast<double>(width));
      table[position * width + i] = std::cos(angle);
      table[position * width + width / 2 + i] = std::sin(angle);
    }
  }
  return table;
}

Values positions_of(std::int64_t tokens) {
  Values positions;
  for (std::int64_t token = 0; token < tokens; ++token)
    positions.push_back(static_cast<double>(token * 7 % kPositions));
  return positions;
}

Values rope_reference(const Heads& heads, Values x, const Values& positions, const Values& table) {
  const std::int64_t half = heads.width / 2;
  for (std::size_t token = 0; token < positions.size(); ++token) {
    const double* turn = table.data() + static_cast<std::int64_t>(positions[token]) * heads.width;
    for (std::int64_t head = 0; head < heads.heads + heads.kv_heads; ++head) {
      double* v = x.data() + static_cast<std::int64_t>(token) * heads.qkv() + head * heads.width;
      for (std::int64_t i = 0; i < half; ++i) {
        const double low = v[i], high = v[i + half];
        v[i] = low * turn[i] - high * turn[half + i];
        v[i + half] = high * turn[i] + low * turn[half + i];
      }
    }
  }
  return x;
}

const Heads kRopeShapes[] = {{1, 1, 2}, {4, 2, 6}, {2, 1, 34}, {4, 4, 64}, {3, 1, 100}};

TEST(Rope, heads_turn_by_their_positions_and_values_do_not) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    for (const Heads& heads : kRopeShapes) {
      for (const std::int64_t tokens : {0, 1, 13}) {
        SCOPED_TRACE(
            say(tokens, " tokens, ", heads.heads, "+", heads.kv_heads, " x ", heads.width));
        Values table = table_of(heads.width);
        for (double& value : table) value = rounded(value, accumulator_of(dtype));
        const Values x = random_values(tokens * heads.qkv(), 1, dtype), at = positions_of(tokens);
        const Held turns(stream, {kPositions, heads.width}, accumulator_of(dtype), table);
        const Held positions(stream, {tokens}, DType::kI32, at);
        const Held qkv(stream, {tokens, heads.qkv()}, dtype, x);
        rope(stream, qkv, positions, turns, heads, false);
        // Two products and a sum of numbers below 4.3.
        expect_values(qkv, rope_reference(heads, x, at, table), 3, 4.3);
      }
    }
  });
}

TEST(Rope, backward_is_the_inverse_and_so_the_derivative) {
  on_every_platform([](Stream& stream) {
    const Heads heads{2, 1, 6};
    const Values table = table_of(6), at = positions_of(4);
    const Values x = random_values(4 * heads.qkv(), 1), dy = random_values(4 * heads.qkv(), 2);
    const Held turns(stream, {kPositions, 6}, DType::kF64, table);
    const Held positions(stream, {4}, DType::kI32, at);
    const Held back(stream, {4, heads.qkv()}, DType::kF64, x);
    rope(stream, back, positions, turns, heads, false);
    rope(stream, back, positions, turns, heads, true);
    expect_values(back, x, 8);
    const Held dx(stream, {4, heads.qkv()}, DType::kF64, dy);
    rope(stream, dx, positions, turns, heads, true);
    expect_gradient(
        [&](const Values& changed) {
          const Held y(stream, {4, heads.qkv()}, DType::kF64, changed);
          rope(stream, y, positions, turns, heads, false);
          return dot(y.values(), dy);
        },
        x, dx.values());
  });
}

TEST(Rope, bits_do_not_depend_on_threads) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    const Heads heads{8, 2, 64};
    const std::int64_t tokens = 150;
    const Held turns(stream, {kPositions, 64}, accumulator_of(dtype), table_of(64));
    const Held positions(stream, {tokens}, DType::kI32, positions_of(tokens));
    const Values x = random_values(tokens * heads.qkv(), 1, dtype);
    expect_thread_independent([&] {
      const Held qkv(stream, {tokens, heads.qkv()}, dtype, x);
      rope(stream, qkv, positions, turns, heads, false);
      return qkv.bits();
    });
  });
}

TEST(Rope, odd_heads_are_refused) {
  Stream stream;
  const Heads heads{1, 1, 3};
  const Held qkv(stream, {2, 9}, DType::kF32), table(stream, {4, 3}, DType::kF32);
  const Held positions(stream, {2}, DType::kI32, {0, 1});
  EXPECT_THROW(rope(stream, qkv, positions, table, heads, false), Error);
}

}  // namespace
}  // namespace trireme::ops
