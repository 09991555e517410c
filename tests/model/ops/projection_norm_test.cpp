#include "model/ops/projection_norm.h"

#include "tests/model/ops/op_test.h"

namespace trireme::ops {
namespace {

using namespace trireme::test;  // NOLINT(google-build-using-namespace)

// A rank's part of a model's heads: what other ranks add to the sums is given.
struct ProjectionProblem {
  Heads heads;
  std::int64_t tokens;
  DType dtype = DType::kF64;
  double key_share = 1;
  double others = 0;  // times this rank's own sums
  double epsilon = 1e-6;
  Values x = random_values(tokens * heads.qkv(), 1, dtype);
  Values query_gain = random_values(heads.query(), 2, dtype);
  Values key_gain = random_values(heads.kv_heads * heads.width, 3, dtype);
  Values dy = random_values(tokens * heads.qkv(), 4, dtype);

  std::int64_t width(int part) const {
    return part == 0 ? heads.query() : heads.kv_heads * heads.width;
  }
  std::int64_t first(int part) const { return part == 0 ? 0 : heads.query(); }
  double gain(int part, std::int64_t i) const { return (part == 0 ? query_gain : key_gain)[i]; }
  double share(int part) const { return part == 0 ? 1 : key_share; }
  // Of the model.
  std::int64_t whole(int part) const {
    return static_cast<std::int64_t>(static_cast<double>(width(part)) * (1 + others));
  }
};

struct ProjectionOutputs {
  Values squares, y, dots, dx, dgain[2];
};

ProjectionOutputs reference(const ProjectionProblem& p) {
  ProjectionOutputs out{{}, p.x, {}, p.dy, {Values(p.width(0)), Values(p.width(1))}};
  for (std::int64_t token = 0; token < p.tokens; ++token) {
    for (const int part : {0, 1}) {
      const std::int64_t at = token * p.heads.qkv() + p.first(part);
      double square = 0, dot = 0;
      for (std::int64_t i = 0; i < p.width(part); ++i) {
        square += p.x[at + i] * p.x[at + i];
        dot += p.dy[at + i] * p.gain(part, i) * p.x[at + i];
      }
      out.squares.push_back(square * p.share(part));
      out.dots.push_back(dot);
      const double n = static_cast<double>(p.whole(part)), all = 1 + p.others;
      const double inverse = 1 / std::sqrt(out.squares.back() * all / n + p.epsilon);
      for (std::int64_t i = 0; i < p.width(part); ++i) {
        out.y[at + i] = p.x[at + i] * inverse * p.gain(part, i);
        out.dgain[part][i] += p.dy[at + i] * p.x[at + i] * inverse;
        out.dx[at + i] =
            inverse * (p.dy[at + i] * p.gain(part, i) -
                       p.x[at + i] * inverse * inverse * p.share(part) * dot * all / n);
      }
    }
  }
  return out;
}

struct ProjectionApplied {
  Held x, query_gain, key_gain, squares, y, dots, dx, dquery_gain, dkey_gain;
  Values own_squares, own_dots;
  ProjectionApplied(Stream& stream, const ProjectionProblem& p, bool in_place = false)
      : x(stream, {p.tokens, p.heads.qkv()}, p.dtype, p.x),
        query_gain(stream, {p.width(0)}, p.dtype, p.query_gain),
        key_gain(stream, {p.width(1)}, p.dtype, p.key_gain),
        squares(stream, {p.tokens, 2}, accumulator_of(p.dtype)),
        y(stream, {p.tokens, p.heads.qkv()}, p.dtype, in_place ? p.x : Values{}),
        dots(stream, {p.tokens, 2}, accumulator_of(p.dtype)),
        dx(stream, {p.tokens, p.heads.qkv()}, p.dtype, p.dy),
        dquery_gain(stream, {p.width(0)}, accumulator_of(p.dtype)),
        dkey_gain(stream, {p.width(1)}, accumulator_of(p.dtype)) {
    Arena scratch(1 << 18, stream.device());
    projection_squares(stream, squares, x, p.heads, p.key_share);
    own_squares = squares.values();
    const Held all_squares = summed(stream, p, own_squares);
    projection_norm(stream, {.y = y,
                             .x = in_place ? y : x,
                             .squares = all_squares,
                             .query_gain = query_gain,
                             .key_gain = key_gain,
                             .heads = p.heads,
                             .query_width = p.whole(0),
                             .key_width = p.whole(1),
                             .epsilon = p.epsilon});
    ProjectionNormBackward how{.dqkv = dx,
                               .dquery_gain = dquery_gain,
                               .dkey_gain = dkey_gain,
                               .x = x,
                               .squares = all_squares,
                               .dots = dots,
                               .query_gain = query_gain,
                               .key_gain = key_gain,
                               .heads = p.heads,
                               .query_width = p.whole(0),
                               .key_width = p.whole(1),
                               .key_share = p.key_share,
                               .epsilon = p.epsilon,
                               .accumulate = Accumulate::kReplace};
    projection_dots(stream, how);
    own_dots = dots.values();
    const Held all_dots = summed(stream, p, own_dots);
    how.dots = all_dots;
    projection_norm_backward(stream, scratch, how);
    EXPECT_EQ(scratch.used(), 0u);
  }

 private:
  static Held summed(Stream& stream, const ProjectionProblem& p, Values own) {
    for (double& value : own) value *= 1 + p.others;
    return Held(stream, {p.tokens, 2}, accumulator_of(p.dtype), own);
  }
};

TEST(ProjectionNorm, forward_and_backward_are_the_formula) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    for (const Heads& heads : {Heads{1, 1, 1}, Heads{4, 2, 3}, Heads{2, 1, 17}, Heads{4, 4, 64}}) {
      for (const std::int64_t tokens : {0, 1, 5, 70}) {
        for (const bool shared : {false, true}) {
          SCOPED_TRACE(say(tokens, " tokens of ", heads.heads, "+", heads.kv_heads, " x ",
                           heads.width, shared ? ", shared" : ""));
          const ProjectionProblem p{heads, tokens, dtype, shared ? 0.5 : 1, shared ? 3.0 : 0};
          const ProjectionOutputs expected = reference(p);
          const ProjectionApplied got(stream, p), in_place(stream, p, true);
          const double width = static_cast<double>(p.width(0)), size = std::sqrt(width) * 16;
          expect_values(got.y, expected.y, 8, size);
          EXPECT_EQ(got.y.bits(), in_place.y.bits());
          for (std::size_t i = 0; i < got.own_squares.size(); ++i) {
            const double most = roundoff(accumulator_of(dtype)) * 16 * (width + 4);
            EXPECT_NEAR(got.own_squares[i], expected.squares[i], most * 16);
            EXPECT_NEAR(got.own_dots[i], expected.dots[i], most * 64);
          }
          double steep = 1;
          for (const double square : expected.squares) {
            steep = std::max(steep, std::sqrt(width / (square + 1e-6 * width)));
          }
          expect_values(got.dx, expected.dx, 8, steep * size);
          expect_values(got.dquery_gain, expected.dgain[0], 64, size);
          expect_values(got.dkey_gain, expected.dgain[1], 64, size);
        }
      }
    }
  });
}

TEST(ProjectionNorm, bits_do_not_depend_on_threads) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    expect_thread_independent([&] {
      const ProjectionApplied got(stream, {{4, 2, 16}, 200, dtype});
      return joined({&got.squares, &got.y, &got.dx, &got.dquery_gain, &got.dkey_gain});
    });
  });
}

}  // namespace
}  // namespace trireme::ops
