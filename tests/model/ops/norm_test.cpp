#include "model/ops/norm.h"

#include "tests/model/ops/op_test.h"

namespace trireme::ops {
namespace {

using namespace trireme::test;  // NOLINT(google-build-using-namespace)

// An RMSNorm is a LayerNorm that takes the mean for zero and has no bias.
struct NormProblem {
  bool layer;
  std::int64_t rows, width;
  DType dtype = DType::kF64;
  double epsilon = 1e-5;
  Values x = random_values(rows * width, 1, dtype, 1.5);
  Values residual = random_values(rows * width, 2, dtype);
  Values gain = random_values(width, 3, dtype);
  Values bias = random_values(width, 4, dtype);
  Values dy = random_values(rows * width, 5, dtype);
  Values dresidual = random_values(rows * width, 6, dtype);
  bool has_bias = layer;
  double gain_offset = 0;

  Shape shape() const { return {rows, width}; }
  double gain_at(std::int64_t i) const { return gain_offset + gain[i]; }
  NormKind kind() const { return layer ? NormKind::kLayerNorm : NormKind::kRmsNorm; }
};

struct NormOutputs {
  Values y, mean, inverse;
};
NormOutputs norm_reference(const NormProblem& p, const Values& s) {
  NormOutputs out{Values(s.size()), Values(p.rows), Values(p.rows)};
  for (std::int64_t row = 0; row < p.rows; ++row) {
    const double* x = s.data() + row * p.width;
    long double mean = 0, variance = 0;  // so that float64 is measured too
    for (std::int64_t i = 0; i < p.width && p.layer; ++i)
      mean += x[i] / static_cast<long double>(p.width);
    for (std::int64_t i = 0; i < p.width; ++i)
      variance += (x[i] - mean) * (x[i] - mean) / static_cast<long double>(p.width);
    const long double inverse = 1 / std::sqrt(variance + p.epsilon);
    for (std::int64_t i = 0; i < p.width; ++i) {
      const long double normed = (x[i] - mean) * inverse;
      out.y[row * p.width + i] =
          static_cast<double>(normed * p.gain_at(i) + (p.has_bias ? p.bias[i] : 0));
    }
    out.mean[row] = static_cast<double>(mean);
    out.inverse[row] = static_cast<double>(inverse);
  }
  return out;
}

struct Gradients {
  Values dx, dgain, dbias;
};
Gradients reference_backward(const NormProblem& p, const NormOutputs& forward) {
  Gradients g{Values(p.x.size()), Values(p.width), Values(p.width)};
  for (std::int64_t row = 0; row < p.rows; ++row) {
    const std::int64_t at = row * p.width;
    const double inverse = forward.inverse[row];
    double mean_d = 0, mean_dn = 0;
    for (std::int64_t i = 0; i < p.width; ++i) {
      const double n = (p.x[at + i] - forward.mean[row]) * inverse, dy = p.dy[at + i];
      g.dgain[i] += dy * n;
      g.dbias[i] += dy;
      mean_d += dy * p.gain_at(i) / static_cast<long double>(p.width);
      mean_dn += dy * p.gain_at(i) * n / static_cast<long double>(p.width);
    }
    for (std::int64_t i = 0; i < p.width; ++i) {
      const double n = (p.x[at + i] - forward.mean[row]) * inverse;
      g.dx[at + i] = inverse * (p.dy[at + i] * p.gain_at(i) - (p.layer ? mean_d : 0) - n * mean_dn);
    }
  }
  return g;
}

struct Forward {
  Held y, mean, inverse;
  Forward(Stream& stream, const NormProblem& p, Tensor x, Tensor sum, Tensor residual)
      : y(stream, p.shape(), p.dtype),
        mean(stream, {p.rows}, accumulator_of(p.dtype)),
        inverse(stream, {p.rows}, accumulator_of(p.dtype)) {
    const Held gain(stream, {p.width}, p.dtype, p.gain), bias(stream, {p.width}, p.dtype, p.bias);
    ops::norm(stream, {p.kind(), y, mean, inverse, sum, x, residual, gain,
                       p.has_bias ? Tensor(bias) : Tensor{}, p.epsilon, p.gain_offset});
  }
};

struct Backward {
  Held dx, dgain, dbias;
  Backward(Stream& stream, const NormProblem& p, Accumulate accumulate = Accumulate::kReplace,
           bool residual = false, const Values& before = {})
      : dx(stream, p.shape(), p.dtype),
        dgain(stream, {p.width}, accumulator_of(p.dtype), before),
        dbias(stream, {p.width}, accumulator_of(p.dtype), before) {
    Arena scratch(1 << 16, stream.device());
    const Held x(stream, p.shape(), p.dtype, p.x), dy(stream, p.shape(), p.dtype, p.dy);
    const Held gain(stream, {p.width}, p.dtype, p.gain);
    const Held dresidual(stream, p.shape(), p.dtype, p.dresidual);
    const Tensor also = residual ? Tensor(dresidual) : Tensor{};
    const Forward forward(stream, p, x, {}, {});
    norm_backward(stream, scratch,
                  {p.kind(), dx, dgain, p.has_bias ? Tensor(dbias) : Tensor{}, dy, x, gain,
                   forward.mean, forward.inverse, also, accumulate, p.gain_offset});
    EXPECT_EQ(scratch.used(), 0u);
  }
};

template <class Body>
void for_every_norm_size(const Body& body) {
  for (const bool layer : {false, true}) {
    for (const std::int64_t rows : {0, 1, 5, 130}) {
      // The last is wider than what the lanes of a block hold.
      for (const std::int64_t width : {1, 3, 17, 64, 100, 333, 2056}) {
        if (rows > 100 && width > 100) continue;  // big enough
        SCOPED_TRACE(say(layer ? "LayerNorm" : "RMSNorm", " of ", rows, " x ", width));
        body(layer, rows, width);
      }
    }
  }
}

// Few roundings a value, but of the centred row's size: a row whose values are
// near each other loses digits to its mean.
double row_scale(const NormProblem& p, const NormOutputs& out) {
  double gain = 1, inverse = 1, x = 1;
  for (const double value : p.gain) gain = std::max(gain, std::fabs(p.gain_offset + value));
  for (const double value : out.inverse) inverse = std::max(inverse, value);
  for (const double value : p.x) x = std::max(x, std::fabs(value));
  return gain * inverse * x;
}

TEST(Norm, forward_is_the_formula) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    for_every_norm_size([&](bool layer, std::int64_t rows, std::int64_t width) {
      const NormProblem p{layer, rows, width, dtype};
      const NormOutputs expected = norm_reference(p, p.x);
      const Held x(stream, p.shape(), dtype, p.x);
      const Forward got(stream, p, x, {}, {});
      expect_values(got.y, expected.y, 8, row_scale(p, expected));
      // Two roundings for the square root of a sum whose own error halves under it.
      if (!layer) expect_values(got.inverse, expected.inverse, 4);
      if (layer) expect_values(got.mean, expected.mean, 8, 4);
    });
  });
}

TEST(Norm, residual_is_added_first_and_kept) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    for_every_norm_size([&](bool layer, std::int64_t rows, std::int64_t width) {
      const NormProblem p{layer, rows, width, dtype};
      Values s = p.x;
      for (std::size_t i = 0; i < s.size(); ++i) s[i] = rounded(s[i] + p.residual[i], dtype);
      const NormOutputs expected = norm_reference(p, s);
      const Held x(stream, p.shape(), dtype, p.x), residual(stream, p.shape(), dtype, p.residual);
      const Held sum(stream, p.shape(), dtype);
      const Forward apart(stream, p, x, sum, residual);
      EXPECT_EQ(sum.values(), s);
      expect_values(apart.y, expected.y, 8, 2 * row_scale(p, expected));
      const Forward in_place(stream, p, x, x, residual);
      EXPECT_EQ(x.bits(), sum.bits());
      EXPECT_EQ(in_place.y.bits(), apart.y.bits());
    });
  });
}

TEST(Norm, again_gives_the_bits_of_the_first_time) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    for_every_norm_size([&](bool layer, std::int64_t rows, std::int64_t width) {
      const NormProblem p{layer, rows, width, dtype};
      const Held x(stream, p.shape(), dtype, p.x), residual(stream, p.shape(), dtype, p.residual);
      const Held sum(stream, p.shape(), dtype), y(stream, p.shape(), dtype);
      const Held gain(stream, {width}, dtype, p.gain), bias(stream, {width}, dtype, p.bias);
      const Forward first(stream, p, x, sum, residual);
      norm_recompute(stream, {.kind = p.kind(),
                              .y = y,
                              .mean = first.mean,
                              .inverse = first.inverse,
                              .x = sum,
                              .gain = gain,
                              .bias = bias});
      EXPECT_EQ(y.bits(), first.y.bits());
    });
  });
}

TEST(Norm, backward_is_the_formula) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    for_every_norm_size([&](bool layer, std::int64_t rows, std::int64_t width) {
      const NormProblem p{layer, rows, width, dtype};
      const NormOutputs forward = norm_reference(p, p.x);
      const Gradients expected = reference_backward(p, forward);
      const double scale = row_scale(p, forward);
      double steep = 1;
      for (const double inverse : forward.inverse) steep = std::max(steep, inverse);
      const Backward got(stream, p);
      expect_values(got.dx, expected.dx, 16, 4 * steep * scale);
      // 64 rows are summed one after the other.
      expect_values(got.dgain, expected.dgain, 64 + 8, 4 * scale);
      if (layer) expect_values(got.dbias, expected.dbias, 64, 8);
    });
  });
}

TEST(Norm, gradients_are_added_when_asked) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    for_every_norm_size([&](bool layer, std::int64_t rows, std::int64_t width) {
      const NormProblem p{layer, rows, width, dtype};
      const DType sums = accumulator_of(dtype);
      const Values before = random_values(width, 9, sums);
      const Backward replaced(stream, p);
      const Backward added(stream, p, Accumulate::kAdd, true, before);
      const auto plus = [](Values a, const Values& b) {
        for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
        return a;
      };
      expect_values(added.dgain, plus(replaced.dgain.values(), before), 2);
      if (layer) expect_values(added.dbias, plus(replaced.dbias.values(), before), 2);
      // dx without the residual's gradient has been rounded once more.
      const Values dx = plus(replaced.dx.values(), p.dresidual);
      const double scale = dx.empty() ? 1 : 4 + *std::max_element(dx.begin(), dx.end());
      expect_values(added.dx, dx, 2 * roundoff(dtype) / roundoff(sums), scale);
    });
  });
}

TEST(Norm, backward_is_the_derivative) {
  on_every_platform([](Stream& stream) {
    for (const bool layer : {false, true}) {
      for (const bool plain : {true, false}) {
        const std::int64_t width = plain ? 3 : 17;
        SCOPED_TRACE(say(layer ? "LayerNorm" : "RMSNorm", " of 3 x ", width));
        NormProblem p{layer, 3, width};
        p.has_bias = layer && plain;
        p.gain_offset = plain ? 0 : 1;
        const auto loss = [&](const NormProblem& changed) {
          const Held x(stream, p.shape(), DType::kF64, changed.x);
          return dot(Forward(stream, changed, x, {}, {}).y.values(), p.dy);
        };
        const Backward got(stream, p);
        const auto with = [&](Values NormProblem::*member) {
          return [&loss, &p, member](const Values& values) {
            NormProblem changed = p;
            changed.*member = values;
            return loss(changed);
          };
        };
        expect_gradient(with(&NormProblem::x), p.x, got.dx.values());
        expect_gradient(with(&NormProblem::gain), p.gain, got.dgain.values());
        if (p.has_bias) expect_gradient(with(&NormProblem::bias), p.bias, got.dbias.values());
      }
    }
  });
}

// Gemma's offset of 1, and a LayerNorm without bias.
TEST(Norm, gains_may_have_an_offset_and_layer_norms_no_bias) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    for (const bool layer : {false, true}) {
      for (const std::int64_t width : {17, 64, 2056}) {
        SCOPED_TRACE(say(layer ? "LayerNorm" : "RMSNorm", " of 9 x ", width));
        NormProblem p{layer, 9, width, dtype};
        p.has_bias = false;
        p.gain_offset = 1;
        const NormOutputs expected = norm_reference(p, p.x);
        const Gradients gradients = reference_backward(p, expected);
        const double scale = row_scale(p, expected);
        const Held x(stream, p.shape(), dtype, p.x), gain(stream, {width}, dtype, p.gain);
        const Held y(stream, p.shape(), dtype);
        const Forward first(stream, p, x, {}, {});
        expect_values(first.y, expected.y, 8, scale);
        norm_recompute(stream, {.kind = p.kind(),
                                .y = y,
                                .mean = first.mean,
                                .inverse = first.inverse,
                                .x = x,
                                .gain = gain,
                                .gain_offset = 1});
        EXPECT_EQ(y.bits(), first.y.bits());
        const Backward got(stream, p);
        double steep = 1;
        for (const double inverse : expected.inverse) steep = std::max(steep, inverse);
        expect_values(got.dx, gradients.dx, 16, 4 * steep * scale);
        expect_values(got.dgain, gradients.dgain, 16, 4 * scale);
      }
    }
  });
}

TEST(Norm, one_nan_spoils_its_row_and_the_gradients_but_no_other_row) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    for (const bool layer : {false, true}) {
      NormProblem p{layer, 3, 100, dtype};
      p.x[100 + 99] = kNan;
      const Held x(stream, p.shape(), dtype, p.x);
      const Values y = Forward(stream, p, x, {}, {}).y.values();
      const Backward back(stream, p);
      const Values dx = back.dx.values(), dgain = back.dgain.values();
      for (std::size_t i = 0; i < y.size(); ++i) {
        EXPECT_EQ(std::isnan(y[i]), i / 100 == 1) << "at " << i;
        EXPECT_EQ(std::isnan(dx[i]), i / 100 == 1) << "at " << i;
      }
      for (const double value : dgain) EXPECT_TRUE(std::isnan(value));
    }
  });
}

TEST(Norm, bits_do_not_depend_on_threads) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    for (const bool layer : {false, true}) {
      expect_thread_independent([&] {
        const NormProblem p{layer, 333, 257, dtype};
        const Held x(stream, p.shape(), dtype, p.x), residual(stream, p.shape(), dtype, p.residual);
        const Held sum(stream, p.shape(), dtype);
        const Forward forward(stream, p, x, sum, residual);
        const Backward backward(stream, p);
        return joined({&sum, &forward.y, &forward.inverse, &backward.dx, &backward.dgain});
      });
    }
  });
}

TEST(Norm, planning_takes_the_same_scratch_and_touches_nothing) {
  Tally tally;
  Stream planning(Device{}, tally), working;
  for (const bool layer : {false, true}) {
    const NormProblem p{layer, 130, 64};
    const auto run = [&](Stream& stream, Arena& scratch) {
      const Held dx(working, p.shape(), p.dtype), dy(working, p.shape(), p.dtype, p.dy);
      const Held x(working, p.shape(), p.dtype, p.x), gain(working, {p.width}, p.dtype, p.gain);
      const Held dgain(working, {p.width}, p.dtype), dbias(working, {p.width}, p.dtype);
      const Held statistic(working, {p.rows}, p.dtype, Values(p.rows, 1.0));
      norm_backward(
          stream, scratch,
          {p.kind(), dx, dgain, dbias, dy, x, gain, statistic, statistic, {}, Accumulate::kAdd});
      return dx.values()[0];
    };
    Arena unbounded = Arena::unbounded(), real(1 << 20);
    EXPECT_TRUE(std::isnan(run(planning, unbounded)));
    EXPECT_FALSE(std::isnan(run(working, real)));
    EXPECT_EQ(unbounded.peak(), real.peak());
    EXPECT_GT(real.peak(), 0u);
  }
}

TEST(Norm, tensors_that_do_not_fit_together_are_refused) {
  Stream stream;
  const Held x(stream, {2, 8}, DType::kF32), gain(stream, {7}, DType::kF32);
  const Held inverse(stream, {2}, DType::kF32);
  const auto rms_norm = [&](const Tensor& with_gain, const Tensor& sum) {
    ops::norm(stream, {.kind = NormKind::kRmsNorm,
                       .y = x,
                       .inverse = inverse,
                       .sum = sum,
                       .x = x,
                       .gain = with_gain});
  };
  EXPECT_THROW(rms_norm(gain, {}), Error);
  const Held whole(stream, {8}, DType::kF64);
  EXPECT_THROW(rms_norm(whole, {}), Error);
  const Held right(stream, {8}, DType::kF32);
  EXPECT_THROW(rms_norm(right, x), Error);
  EXPECT_NO_THROW(rms_norm(right, {}));
}

}  // namespace
}  // namespace trireme::ops
