#include "model/ops/rope.h"

#include "tests/model/ops/op_test.h"

namespace trireme::ops {
namespace {

using namespace trireme::test;  // NOLINT(google-build-using-namespace)

constexpr std::int64_t kPositions = 50;

// Scaled as by YaRN: cosine^2 + sine^2 = scale^2.
Values table_of(std::int64_t rotated, double scale = 1) {
  Values table(kPositions * rotated);
  for (std::int64_t position = 0; position < kPositions; ++position) {
    for (std::int64_t i = 0; i < rotated / 2; ++i) {
      const double angle =
          static_cast<double>(position) *
          std::pow(10000.0, -2 * static_cast<double>(i) / static_cast<double>(rotated));
      table[position * rotated + i] = scale * std::cos(angle);
      table[position * rotated + rotated / 2 + i] = scale * std::sin(angle);
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

Values rope_reference(const Rope& op, Values x, const Values& positions, const Values& table) {
  const Heads& heads = op.heads;
  const std::int64_t rotated = op.rotated == 0 ? heads.width : op.rotated, half = rotated / 2;
  for (std::size_t token = 0; token < positions.size(); ++token) {
    const double* turn = table.data() + static_cast<std::int64_t>(positions[token]) * rotated;
    for (std::int64_t head = 0; head < heads.heads + heads.kv_heads; ++head) {
      double* v = x.data() + static_cast<std::int64_t>(token) * heads.qkv() + head * heads.width;
      for (std::int64_t i = 0; i < half; ++i) {
        double& a = v[op.interleaved ? 2 * i : i];
        double& b = v[op.interleaved ? 2 * i + 1 : i + half];
        const double before = a;
        a = before * turn[i] - b * turn[half + i];
        b = b * turn[i] + before * turn[half + i];
      }
    }
  }
  return x;
}

// Rotating whole heads, parts of them, and parts that end within packs.
Rope rope_of(const Heads& heads, std::int64_t rotated, bool interleaved) {
  return {.heads = heads, .rotated = rotated, .interleaved = interleaved};
}
const std::pair<Heads, std::int64_t> kRopeShapes[] = {
    {{1, 1, 2}, 0},   {{4, 2, 6}, 4},   {{2, 1, 34}, 0},   {{4, 4, 64}, 0},
    {{4, 4, 64}, 32}, {{3, 1, 100}, 0}, {{2, 1, 100}, 64}, {{1, 1, 640}, 600}};

TEST(Rope, heads_turn_by_their_positions_and_values_do_not) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    for (const auto& [heads, rotated] : kRopeShapes) {
      for (const std::int64_t tokens : {0, 1, 13}) {
        for (const bool interleaved : {false, true}) {
          SCOPED_TRACE(say(tokens, " tokens, ", heads.heads, "+", heads.kv_heads, " x ",
                           heads.width, ", rotated ", rotated, interleaved ? " interleaved" : ""));
          const std::int64_t columns = rotated == 0 ? heads.width : rotated;
          const Rope op = rope_of(heads, rotated, interleaved);
          Values table = table_of(columns);
          for (double& value : table) value = rounded(value, accumulator_of(dtype));
          const Values x = random_values(tokens * heads.qkv(), 1, dtype), at = positions_of(tokens);
          const Held turns(stream, {kPositions, columns}, accumulator_of(dtype), table);
          const Held positions(stream, {tokens}, DType::kI32, at);
          const Held qkv(stream, {tokens, heads.qkv()}, dtype, x);
          rope(stream, qkv, positions, turns, op);
          // Two products and a sum of numbers below 4.3.
          expect_values(qkv, rope_reference(op, x, at, table), 3, 4.3);
        }
      }
    }
  });
}

TEST(Rope, unscaled_backward_is_the_inverse) {
  on_every_platform([](Stream& stream) {
    for (const bool interleaved : {false, true}) {
      Rope op = rope_of({2, 1, 6}, 4, interleaved);
      const Values x = random_values(4 * op.heads.qkv(), 1);
      const Held turns(stream, {kPositions, 4}, DType::kF64, table_of(4));
      const Held positions(stream, {4}, DType::kI32, positions_of(4));
      const Held back(stream, {4, op.heads.qkv()}, DType::kF64, x);
      for (const bool backward : {false, true}) {
        op.backward = backward;
        rope(stream, back, positions, turns, op);
      }
      expect_values(back, x, 8);
    }
  });
}

TEST(Rope, backward_is_the_derivative_with_a_scaled_table) {
  on_every_platform([](Stream& stream) {
    for (const bool interleaved : {false, true}) {
      const Rope forward = rope_of({2, 1, 6}, 4, interleaved);
      Rope backward = forward;
      backward.backward = true;
      const std::int64_t width = forward.heads.qkv();
      const Held turns(stream, {kPositions, 4}, DType::kF64, table_of(4, 1.25));
      const Held positions(stream, {4}, DType::kI32, positions_of(4));
      const Values x = random_values(4 * width, 1), dy = random_values(4 * width, 2);
      const Held dx(stream, {4, width}, DType::kF64, dy);
      rope(stream, dx, positions, turns, backward);
      expect_gradient(
          [&](const Values& changed) {
            const Held y(stream, {4, width}, DType::kF64, changed);
            rope(stream, y, positions, turns, forward);
            return dot(y.values(), dy);
          },
          x, dx.values());
    }
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
      rope(stream, qkv, positions, turns, {.heads = heads, .interleaved = true});
      return qkv.bits();
    });
  });
}

TEST(Rope, odd_parts_and_parts_wider_than_heads_are_refused) {
  Stream stream;
  const Held qkv(stream, {2, 9}, DType::kF32), wide(stream, {2, 12}, DType::kF32);
  const Held positions(stream, {2}, DType::kI32, {0, 1});
  const auto refuses = [&](const Held& x, std::int64_t columns, const Rope& op) {
    const Held table(stream, {4, columns}, DType::kF32, Values(4 * columns, 0.5));
    EXPECT_THROW(rope(stream, x, positions, table, op), Error);
  };
  refuses(qkv, 3, {.heads = {1, 1, 3}});
  refuses(wide, 3, {.heads = {1, 1, 4}, .rotated = 3});
  refuses(wide, 6, {.heads = {1, 1, 4}, .rotated = 6});
  refuses(wide, 4, {.heads = {1, 1, 4}, .rotated = 2});  // the table is another's
}

}  // namespace
}  // namespace trireme::ops
