#include "model/ops/head_norm.h"

#include "tests/model/ops/op_test.h"

namespace trireme::ops {
namespace {

using namespace trireme::test;  // NOLINT(google-build-using-namespace)

struct HeadNormProblem {
  Heads heads;
  std::int64_t tokens;
  DType dtype = DType::kF64;
  double epsilon = 1e-6;
  double gain_offset = 0;
  Values x = random_values(tokens * heads.qkv(), 1, dtype);
  Values query_gain = random_values(heads.width, 2, dtype);
  Values key_gain = random_values(heads.width, 3, dtype);
  Values dy = random_values(tokens * heads.qkv(), 4, dtype);

  Shape shape() const { return {tokens, heads.qkv()}; }
  std::int64_t normed() const { return heads.heads + heads.kv_heads; }
  double gain(std::int64_t head, std::int64_t i) const {
    return gain_offset + (head < heads.heads ? query_gain : key_gain)[i];
  }
};

struct HeadNormOutputs {
  Values y, inverse, dx, dquery_gain, dkey_gain;
};
HeadNormOutputs head_norm_reference(const HeadNormProblem& p) {
  const std::int64_t width = p.heads.width;
  HeadNormOutputs out{p.x, {}, p.dy, Values(width), Values(width)};
  for (std::int64_t token = 0; token < p.tokens; ++token) {
    for (std::int64_t head = 0; head < p.normed(); ++head) {
      const std::int64_t at = token * p.heads.qkv() + head * width;
      Values& dgain = head < p.heads.heads ? out.dquery_gain : out.dkey_gain;
      const double n = static_cast<double>(width);
      double square = 0, mean_dn = 0;
      for (std::int64_t i = 0; i < width; ++i) square += p.x[at + i] * p.x[at + i] / n;
      const double inverse = 1 / std::sqrt(square + p.epsilon);
      for (std::int64_t i = 0; i < width; ++i) {
        const double normed = p.x[at + i] * inverse;
        out.y[at + i] = normed * p.gain(head, i);
        dgain[i] += p.dy[at + i] * normed;
        mean_dn += p.dy[at + i] * p.gain(head, i) * normed / n;
      }
      for (std::int64_t i = 0; i < width; ++i) {
        out.dx[at + i] =
            inverse * (p.dy[at + i] * p.gain(head, i) - p.x[at + i] * inverse * mean_dn);
      }
      out.inverse.push_back(inverse);
    }
  }
  return out;
}

struct HeadNormApplied {
  Held x, query_gain, key_gain, y, inverse, dx, dquery_gain, dkey_gain;
  HeadNormApplied(Stream& stream, const HeadNormProblem& p, bool in_place = false)
      : x(stream, p.shape(), p.dtype, p.x),
        query_gain(stream, {p.heads.width}, p.dtype, p.query_gain),
        key_gain(stream, {p.heads.width}, p.dtype, p.key_gain),
        y(stream, p.shape(), p.dtype, in_place ? p.x : Values{}),
        inverse(stream, {p.tokens, p.normed()}, accumulator_of(p.dtype)),
        dx(stream, p.shape(), p.dtype, p.dy),
        dquery_gain(stream, {p.heads.width}, accumulator_of(p.dtype)),
        dkey_gain(stream, {p.heads.width}, accumulator_of(p.dtype)) {
    Arena scratch(1 << 16, stream.device());
    head_norm(stream, {.y = y,
                       .inv_rms = inverse,
                       .x = in_place ? y : x,
                       .query_gain = query_gain,
                       .key_gain = key_gain,
                       .heads = p.heads,
                       .epsilon = p.epsilon,
                       .gain_offset = p.gain_offset});
    head_norm_backward(stream, scratch,
                       {.dqkv = dx,
                        .dquery_gain = dquery_gain,
                        .dkey_gain = dkey_gain,
                        .x = x,
                        .query_gain = query_gain,
                        .key_gain = key_gain,
                        .inv_rms = inverse,
                        .heads = p.heads,
                        .accumulate = Accumulate::kReplace,
                        .gain_offset = p.gain_offset});
    EXPECT_EQ(scratch.used(), 0u);
  }
};

const Heads kHeadNormShapes[] = {{1, 1, 1},  {4, 2, 3},   {2, 1, 17},
                                 {4, 4, 64}, {8, 2, 100}, {2, 1, 160}};

TEST(HeadNorm, forward_and_backward_are_the_formula) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    for (const Heads& heads : kHeadNormShapes) {
      for (const std::int64_t tokens : {0, 1, 5, 70}) {
        SCOPED_TRACE(
            say(tokens, " tokens of ", heads.heads, "+", heads.kv_heads, " x ", heads.width));
        // Gemma 3's offset in some.
        const HeadNormProblem p{heads, tokens, dtype, 1e-6, tokens == 5 ? 1.0 : 0.0};
        const HeadNormOutputs expected = head_norm_reference(p);
        const HeadNormApplied got(stream, p), in_place(stream, p, true);
        double steep = 1;
        for (const double inverse : expected.inverse) steep = std::max(steep, inverse);
        expect_values(got.y, expected.y, 8);
        expect_values(got.inverse, expected.inverse, 4);
        EXPECT_EQ(got.y.bits(), in_place.y.bits());
        // |x inverse| <= sqrt(width) and |gain| <= 5.3 bound what dx is a difference of.
        const double size = std::sqrt(static_cast<double>(heads.width)) * 16;
        expect_values(got.dx, expected.dx, 8, steep * size);
        // Up to 64 tokens times 8 heads one after the other.
        expect_values(got.dquery_gain, expected.dquery_gain, 64, size);
        expect_values(got.dkey_gain, expected.dkey_gain, 64, size);
      }
    }
  });
}

TEST(HeadNorm, values_pass_through_bit_by_bit) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    const HeadNormProblem p{{2, 1, 17}, 3, dtype};
    const HeadNormApplied got(stream, p);
    const Values y = got.y.values(), dx = got.dx.values();
    for (std::int64_t token = 0; token < p.tokens; ++token) {
      for (std::int64_t i = token * p.heads.qkv() + 3 * 17; i < (token + 1) * p.heads.qkv(); ++i) {
        EXPECT_EQ(y[i], p.x[i]);
        EXPECT_EQ(dx[i], p.dy[i]);
      }
    }
  });
}

TEST(HeadNorm, backward_is_the_derivative) {
  on_every_platform([](Stream& stream) {
    const HeadNormProblem p{{2, 1, 5}, 2, DType::kF64, 1e-6, 1};
    const HeadNormApplied got(stream, p);
    const auto with = [&](Values HeadNormProblem::*member) {
      return [&stream, &p, member](const Values& values) {
        HeadNormProblem changed = p;
        changed.*member = values;
        return dot(HeadNormApplied(stream, changed).y.values(), p.dy);
      };
    };
    expect_gradient(with(&HeadNormProblem::x), p.x, got.dx.values());
    expect_gradient(with(&HeadNormProblem::query_gain), p.query_gain, got.dquery_gain.values());
    expect_gradient(with(&HeadNormProblem::key_gain), p.key_gain, got.dkey_gain.values());
  });
}

TEST(HeadNorm, one_nan_spoils_its_head_only) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    HeadNormProblem p{{2, 1, 17}, 2, dtype};
    p.x[17 + 16] = kNan;
    const HeadNormApplied got(stream, p);
    const Values y = got.y.values(), dx = got.dx.values();
    for (std::size_t i = 0; i < y.size(); ++i) {
      EXPECT_EQ(std::isnan(y[i]), i / 17 == 1) << "at " << i;
      EXPECT_EQ(std::isnan(dx[i]), i / 17 == 1) << "at " << i;
    }
  });
}

TEST(HeadNorm, bits_do_not_depend_on_threads) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    expect_thread_independent([&] {
      const HeadNormApplied got(stream, HeadNormProblem{{8, 2, 64}, 200, dtype});
      return joined({&got.y, &got.dx, &got.dquery_gain, &got.dkey_gain});
    });
  });
}

}  // namespace
}  // namespace trireme::ops
