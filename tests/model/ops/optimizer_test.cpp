#include "model/ops/optimizer.h"

#include <bit>

#include "model/ops/adamw_rounded.h"
#include "model/ops/elementwise.h"
#include "tests/model/ops/op_test.h"

namespace trireme::ops {
namespace {

using namespace trireme::test;  // NOLINT(google-build-using-namespace)

TEST(ChunkSquares, partials_are_float64_sums_of_fixed_chunks) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    for (const std::int64_t count :
         {std::int64_t{0}, std::int64_t{1}, std::int64_t{17}, kNormChunk, 2 * kNormChunk + 33}) {
      SCOPED_TRACE(count);
      const std::int64_t chunks = (count + kNormChunk - 1) / kNormChunk;
      const Values x = random_values(count, 1, dtype);
      std::vector<long double> sums(chunks);
      for (std::int64_t i = 0; i < count; ++i) sums[i / kNormChunk] += x[i] * x[i];
      const Held values(stream, {count}, dtype, x);
      const Held partials(stream, {chunks}, DType::kF64, Values(static_cast<std::size_t>(chunks)));
      add_chunk_squares(stream, partials, values);
      // At least 8 accumulators of at most 8192 additions; errors cancel well below that.
      expect_values(partials, Values(sums.begin(), sums.end()), 64);
    }
  });
}

TEST(ChunkSquares, a_chunk_has_the_same_bits_wherever_it_is_held) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    const std::int64_t count = 2 * kNormChunk + 33;
    const Values x = random_values(count, 1, dtype);
    const Held whole(stream, {count}, dtype, x), all(stream, {3}, DType::kF64, Values(3));
    add_chunk_squares(stream, all, whole);
    const Values tail(x.begin() + kNormChunk, x.end());
    const Held rest(stream, {count - kNormChunk}, dtype, tail);
    const Held two(stream, {2}, DType::kF64, Values(2));
    add_chunk_squares(stream, two, rest);
    EXPECT_EQ(two.values()[0], all.values()[1]);
    EXPECT_EQ(two.values()[1], all.values()[2]);
  });
}

TEST(ChunkSquares, a_run_may_begin_within_a_chunk_and_adds_to_it) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    const std::int64_t into = kNormChunk - 5, count = 7;
    const Held run(stream, {count}, dtype, Values{1, 1, 1, 1, 1, 2, 2});
    const Held partials(stream, {2}, DType::kF64, Values{100, 1000});
    add_chunk_squares(stream, partials, run, into);
    EXPECT_EQ(partials.values(), (Values{105, 1008}));
  });
}

TEST(ChunkSquares, chunks_may_be_smaller) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    const std::int64_t chunk = 32, count = 5 * chunk + 3, into = 2 * chunk / 4;
    const Values x = random_values(count, 1, dtype);
    std::vector<long double> sums(6);
    for (std::int64_t i = 0; i < count; ++i) sums[(into + i) / chunk] += x[i] * x[i];
    const Held values(stream, {count}, dtype, x), partials(stream, {6}, DType::kF64, Values(6));
    add_chunk_squares(stream, partials, values, into, chunk);
    expect_values(partials, Values(sums.begin(), sums.end()), 64);
    EXPECT_THROW(add_chunk_squares(stream, partials, values, chunk, chunk), Error);
  });
}

TEST(ClipScale, shrinks_long_gradients_only) {
  on_every_platform([](Stream& stream) {
    for (const DType dtype : {DType::kF32, DType::kF64}) {
      const auto clipped = [&](const Values& squares, double most) {
        const Held partials(stream, {static_cast<std::int64_t>(squares.size())}, DType::kF64,
                            squares);
        const Held norm(stream, {1}, dtype), scale(stream, {1}, dtype);
        clip_scale(stream, norm, scale, partials, {.max_norm = most});
        return std::pair{norm.values()[0], scale.values()[0]};
      };
      EXPECT_EQ(clipped({9, 16}, 1), std::pair(5.0, rounded(0.2, dtype)));
      EXPECT_EQ(clipped({9, 16}, 5), std::pair(5.0, 1.0));
      EXPECT_EQ(clipped({9, 16}, 7), std::pair(5.0, 1.0));
      EXPECT_EQ(clipped({9, 16}, 0), std::pair(5.0, 1.0));
      EXPECT_EQ(clipped({0}, 1), std::pair(0.0, 1.0));
    }
  });
}

// One order on every device: groups first, then their sums.
TEST(ClipScale, partial_sums_are_added_by_groups) {
  const Values partials = random_values(3 * kNormGroup + 5, 7, DType::kF64);
  double squares = 0;
  for (std::size_t first = 0; first < partials.size(); first += kNormGroup) {
    double group = 0;
    for (std::size_t i = first; i < std::min(first + kNormGroup, partials.size()); ++i) {
      group += std::abs(partials[i]);
    }
    squares += group;
  }
  on_every_platform([&](Stream& stream) {
    Values positive = partials;
    for (double& value : positive) value = std::abs(value);
    const Held sums(stream, {static_cast<std::int64_t>(positive.size())}, DType::kF64, positive);
    const Held norm(stream, {1}, DType::kF64), scale(stream, {1}, DType::kF64);
    clip_scale(stream, norm, scale, sums, {});
    EXPECT_EQ(norm.values()[0], std::sqrt(squares));
  });
}

TEST(ClipScale, a_loss_scale_is_taken_off_the_norm_and_the_gradients) {
  on_every_platform([](Stream& stream) {
    for (const DType dtype : {DType::kF32, DType::kF64}) {
      const auto clipped = [&](double times, const Clip& how) {
        const Held partials(stream, {2}, DType::kF64, {9 * times * times, 16 * times * times});
        const Held norm(stream, {1}, dtype), scale(stream, {1}, dtype);
        clip_scale(stream, norm, scale, partials, how);
        return std::pair{norm.values()[0], scale.values()[0]};
      };
      for (const double loss_scale : {0x1p24, 8.0, 0x1p-3}) {
        const auto with = [&](double most) { return Clip{most, 5, loss_scale}; };
        EXPECT_EQ(clipped(loss_scale, with(1)), std::pair(5.0, rounded(0.2, dtype) / loss_scale));
        EXPECT_EQ(clipped(loss_scale, with(7)), std::pair(5.0, 1 / loss_scale));
        EXPECT_TRUE(std::isnan(clipped(1.001 * loss_scale, with(1)).second));
      }
    }
  });
}

TEST(ClipScale, is_nan_for_a_norm_that_must_not_be_applied) {
  on_every_platform([](Stream& stream) {
    for (const DType dtype : {DType::kF32, DType::kF64}) {
      const auto scale_of = [&](double squares, double limit) {
        const Held partials(stream, {2}, DType::kF64, {9, squares});
        const Held norm(stream, {1}, dtype), scale(stream, {1}, dtype);
        clip_scale(stream, norm, scale, partials, {.max_norm = 1, .limit = limit});
        return scale.values()[0];
      };
      EXPECT_TRUE(std::isnan(scale_of(kNan, kInfinity)));
      EXPECT_TRUE(std::isnan(scale_of(kInfinity, kInfinity)));
      EXPECT_EQ(scale_of(16, 5), rounded(0.2, dtype));
      EXPECT_TRUE(std::isnan(scale_of(16, 4.999)));
      EXPECT_TRUE(std::isnan(scale_of(16, -1)));
      // Finite in float64 alone.
      EXPECT_EQ(std::isnan(scale_of(1e100, kInfinity)), dtype == DType::kF32);
    }
  });
}

struct OptimizerProblem {
  std::int64_t count;
  DType dtype = DType::kF64;
  bool has_master = true;
  double grad_scale = 0.5;
  AdamW how{.learning_rate = 0.01,
            .beta1 = 0.9,
            .beta2 = 0.95,
            .epsilon = 1e-8,
            .weight_decay = 0.1,
            .step = 1};
  DType sums() const { return accumulator_of(dtype); }
  Values master = random_values(count, 1, sums());
  Values m = random_values(count, 2, sums(), 0.1);
  Values v = squares(random_values(count, 3, sums(), 0.1));
  Values grad = random_values(count, 4, sums());

  Values squares(Values x) const {
    for (double& value : x) value = rounded(value * value, sums());
    return x;
  }
};

// As published, in float64.
OptimizerProblem optimizer_reference(OptimizerProblem p) {
  const double steps = static_cast<double>(p.how.step);
  for (std::int64_t i = 0; i < p.count; ++i) {
    const double g = p.grad[i] * p.grad_scale;
    p.m[i] = p.how.beta1 * p.m[i] + (1 - p.how.beta1) * g;
    p.v[i] = p.how.beta2 * p.v[i] + (1 - p.how.beta2) * g * g;
    const double m = p.m[i] / (1 - std::pow(p.how.beta1, steps));
    const double v = p.v[i] / (1 - std::pow(p.how.beta2, steps));
    p.master[i] -= p.how.learning_rate *
                   (m / (std::sqrt(v) + p.how.epsilon) + p.how.weight_decay * p.master[i]);
  }
  return p;
}

struct OptimizerApplied {
  Held value, master, m, v, grad, scale;
  OptimizerApplied(Stream& stream, const OptimizerProblem& p)
      : value(stream, {p.count}, p.dtype, p.has_master ? Values{} : p.master),
        master(stream, {p.count}, p.sums(), p.master),
        m(stream, {p.count}, p.sums(), p.m),
        v(stream, {p.count}, p.sums(), p.v),
        grad(stream, {p.count}, p.sums(), p.grad),
        scale(stream, {1}, p.sums(), {p.grad_scale}) {
    adamw(stream, {value, p.has_master ? master : value, grad, {m, v}}, scale, p.how);
  }
};

TEST(AdamW, update_is_the_published_one) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    for (const std::int64_t count : {0, 1, 3, 17, 64, 100, 20001}) {
      for (const std::int64_t step : {1, 2, 1000}) {
        for (const bool has_master : {true, false}) {
          if (!has_master && size_of(dtype) == 2) continue;
          SCOPED_TRACE(say(count, " at step ", step, has_master ? "" : " without master"));
          OptimizerProblem p{count, dtype, has_master};
          p.how.step = step;
          const OptimizerProblem expected = optimizer_reference(p);
          const OptimizerApplied got(stream, p);
          // g, two products and a sum each; betas are rounded to float32 as well.
          expect_values(got.m, expected.m, 4, 1);
          expect_values(got.v, expected.v, 6, 1);
          // The update, at most 0.01 * 4.5 / (1 - 0.9) in size, is off by a few roundings of
          // itself, which is less than one of the weight's.
          const Held& weights = has_master ? got.master : got.value;
          expect_values(weights, expected.master, 4, 1);
          if (has_master) expect_values(got.value, got.master.values(), 0, 1e-300);
        }
      }
    }
  });
}

TEST(AdamW, a_part_of_the_range_gets_the_bits_it_has_in_the_whole) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    const OptimizerProblem whole{1003, dtype};
    const OptimizerApplied all(stream, whole);
    for (const auto& [first, count] : {std::pair{1, 1000}, std::pair{7, 30}, std::pair{990, 13}}) {
      OptimizerProblem part = whole;
      part.count = count;
      for (Values* values : {&part.master, &part.m, &part.v, &part.grad}) {
        *values = Values(values->begin() + first, values->begin() + first + count);
      }
      const OptimizerApplied some(stream, part);
      const auto same = [&, at = first](const Held& a, const Held& b) {
        const Values x = a.values(), y = b.values();
        return std::equal(x.begin(), x.end(), y.begin() + at);
      };
      EXPECT_TRUE(same(some.value, all.value) && same(some.master, all.master));
      EXPECT_TRUE(same(some.m, all.m) && same(some.v, all.v));
    }
  });
}

TEST(AdamW, nan_reaches_the_weight_it_belongs_to) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    OptimizerProblem p{100, dtype};
    p.grad[98] = kNan;
    const OptimizerApplied got(stream, p);
    const Values value = got.value.values();
    for (std::size_t i = 0; i < value.size(); ++i) EXPECT_EQ(std::isnan(value[i]), i == 98);
  });
}

TEST(AdamW, a_scale_of_nan_changes_nothing) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    for (const bool has_master : {true, false}) {
      if (!has_master && size_of(dtype) == 2) continue;
      OptimizerProblem p{1003, dtype, has_master};
      p.grad_scale = kNan;
      p.grad[98] = kNan;
      const OptimizerApplied got(stream, p);
      EXPECT_EQ(got.master.values(), p.master);
      EXPECT_EQ(got.m.values(), p.m);
      EXPECT_EQ(got.v.values(), p.v);
      if (!has_master) {
        EXPECT_EQ(got.value.values(), p.master);
      }
    }
  });
}

TEST(AdamW, bits_do_not_depend_on_threads) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    const OptimizerProblem p{50003, dtype};
    const std::int64_t chunks = (p.count + kNormChunk - 1) / kNormChunk;
    expect_thread_independent([&] {
      const OptimizerApplied got(stream, p);
      const Held partials(stream, {chunks}, DType::kF64, Values(static_cast<std::size_t>(chunks)));
      add_chunk_squares(stream, partials, got.grad);
      return joined({&got.value, &got.master, &got.m, &got.v, &partials});
    });
  });
}

TEST(AdamW, bfloat16_weights_without_a_master_are_refused) {
  Stream stream;
  OptimizerProblem p{4, DType::kBf16, false};
  EXPECT_THROW(OptimizerApplied(stream, p), Error);
  OptimizerProblem early{4};
  early.how.step = 0;
  EXPECT_THROW(OptimizerApplied(stream, early), Error);
}

// Comparable where a value is NaN.
std::vector<std::uint64_t> bits_of(const std::vector<Values>& all) {
  std::vector<std::uint64_t> bits;
  for (const Values& values : all) {
    for (const double value : values) {
      bits.push_back(std::isnan(value) ? ~std::uint64_t{0} : std::bit_cast<std::uint64_t>(value));
    }
  }
  return bits;
}

// Moments in bfloat16 in one pass, or by the ops that it replaces.
std::vector<Values> rounded_update(Stream& stream, const OptimizerProblem& p,
                                   const AdamWRounding& how, bool in_one_pass) {
  const Held value(stream, {p.count}, p.dtype, p.has_master ? Values{} : p.master);
  const Held master(stream, {p.count}, DType::kF32, p.master);
  const Held m(stream, {p.count}, DType::kBf16, p.m), v(stream, {p.count}, DType::kBf16, p.v);
  const Held grad(stream, {p.count}, DType::kF32, p.grad);
  const Held scale(stream, {1}, DType::kF32, {p.grad_scale});
  const Tensor weights = p.has_master ? Tensor(master) : Tensor(value);
  if (in_one_pass) {
    adamw_rounded(stream, {value, weights, grad, {m, v}}, scale, p.how, how);
  } else {
    const Held wide_m(stream, {p.count}, DType::kF32), wide_v(stream, {p.count}, DType::kF32);
    cast(stream, wide_m, m);
    cast(stream, wide_v, v);
    adamw(stream, {how.rounds_value ? weights : Tensor(value), weights, grad, {wide_m, wide_v}},
          scale, p.how);
    const auto round = [&](const Tensor& to, const Tensor& from, std::uint64_t key) {
      round_stochastically(stream, to, from, scale, {key, how.update, how.where});
    };
    round(m, wide_m, how.m_key);
    round(v, wide_v, how.v_key);
    if (how.rounds_value) round(value, weights, how.value_key);
  }
  return {value.values(), master.values(), m.values(), v.values()};
}

TEST(AdamWRounded, bits_are_those_of_cast_update_and_rounding) {
  on_every_platform([](Stream& stream) {
    for (const DType dtype : {DType::kBf16, DType::kF16, DType::kF32}) {
      for (const bool rounds : {false, true}) {
        if (rounds && dtype != DType::kBf16) continue;
        for (const auto& [where, count] :
             {std::pair{Strided{0, 100000, 100000, 0}, 5001},
              std::pair{Strided{13, 600, 2000, 70}, 3001}, std::pair{Strided{2, 3, 7, 1}, 50},
              std::pair{Strided{8, 64, 128, 32}, 1000}, std::pair{Strided{5, 9, 9, 0}, 1},
              std::pair{Strided{0, 1, 1, 0}, 0}}) {
          SCOPED_TRACE(say(name_of(dtype), " ", count, " in runs of ", where.run, " ", rounds));
          OptimizerProblem p{count, dtype, size_of(dtype) == 2};
          const AdamWRounding how{.m_key = 11,
                                  .v_key = 12,
                                  .value_key = 13,
                                  .rounds_value = rounds,
                                  .update = 7,
                                  .where = where};
          if (count > 40) p.grad[37] = kNan;
          EXPECT_EQ(bits_of(rounded_update(stream, p, how, true)),
                    bits_of(rounded_update(stream, p, how, false)));
          p.grad_scale = kNan;
          EXPECT_EQ(bits_of(rounded_update(stream, p, how, true)),
                    bits_of(rounded_update(stream, p, how, false)));
        }
      }
    }
  });
}

}  // namespace
}  // namespace trireme::ops
