#include "model/ops/cross_entropy.h"

#include <optional>

#include "tests/model/ops/op_test.h"

namespace trireme::ops {
namespace {

using namespace trireme::test;  // NOLINT(google-build-using-namespace)

// Logits of a vocabulary of which columns [first, first + width) are held.
struct CrossEntropyProblem {
  std::int64_t rows, width;
  DType dtype = DType::kF64;
  std::int64_t first = 0;
  Values logits = random_values(rows * width, 1, dtype, 4);
  Values targets = some_targets();

  // Held here, ignored (-1), and held by another.
  Values some_targets() const {
    Values ids;
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t kind = row % 4;
      ids.push_back(static_cast<double>(kind == 2   ? -1
                                        : kind == 3 ? first + width
                                                    : first + row * 31 % width));
    }
    return ids;
  }
};

struct CrossEntropyOutputs {
  Values top, total, target, loss, gradient;
};
// Of logits that are transformed already.
CrossEntropyOutputs cross_entropy_reference(const CrossEntropyProblem& p, double scale,
                                            const LogitForm& form = {}) {
  CrossEntropyOutputs out;
  out.gradient.resize(p.logits.size());
  for (std::int64_t row = 0; row < p.rows; ++row) {
    const double* x = p.logits.data() + row * p.width;
    const double top = *std::max_element(x, x + p.width);
    long double total = 0;
    for (std::int64_t i = 0; i < p.width; ++i) total += std::exp(x[i] - top);
    const auto id = static_cast<std::int64_t>(p.targets[row]);
    const std::int64_t column = id < 0 ? -1 : id - p.first;
    const bool here = column >= 0 && column < p.width;
    const auto sum = static_cast<double>(total);
    out.top.push_back(top);
    out.total.push_back(sum);
    out.target.push_back(here ? x[column] - top : 0);
    const double whole = top + std::log(sum);
    out.loss.push_back(id < 0 ? 0
                              : std::log(sum) - out.target.back() + form.z_loss * whole * whole);
    for (std::int64_t i = 0; i < p.width; ++i) {
      const double probability = std::exp(x[i] - top) / sum;
      const double capped = form.soft_cap > 0 ? x[i] / form.soft_cap : 0;
      const double change =
          probability * (1 + 2 * form.z_loss * whole) - (here && i == column ? 1 : 0);
      out.gradient[row * p.width + i] =
          id < 0 ? 0 : scale * form.scale * change * (1 - capped * capped);
    }
  }
  return out;
}

struct CrossEntropyApplied {
  Held logits, targets, top, total, target, loss, factor;
  CrossEntropyApplied(Stream& stream, const CrossEntropyProblem& p,
                      std::optional<double> scale = {}, const LogitForm& form = {})
      : logits(stream, {p.rows, p.width}, p.dtype, p.logits),
        targets(stream, {p.rows}, DType::kI32, p.targets),
        top(stream, {p.rows}, accumulator_of(p.dtype)),
        total(stream, {p.rows}, accumulator_of(p.dtype)),
        target(stream, {p.rows}, accumulator_of(p.dtype)),
        loss(stream, {p.rows}, accumulator_of(p.dtype)),
        factor(stream, {1}, DType::kF64, {scale.value_or(1)}) {
    transform_logits(stream, logits, form);
    row_max(stream, top, logits);
    row_exp_sum(stream, total, target, logits, top, targets, p.first);
    cross_entropy(stream, loss, top, total, target, targets, form);
    cross_entropy_backward(stream, logits, top, total, targets, p.first, scale ? factor : Tensor{},
                           form);
  }
};

TEST(CrossEntropy, every_step_is_its_formula) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    for (const std::int64_t rows : {0, 1, 6}) {
      for (const std::int64_t width : {1, 3, 17, 64, 100, 5003}) {
        for (const std::int64_t first : {0, 1000}) {
          SCOPED_TRACE(say(rows, " x ", width, " from ", first));
          const CrossEntropyProblem p{rows, width, dtype, first};
          const CrossEntropyOutputs expected = cross_entropy_reference(p, 0.25);
          const CrossEntropyApplied got(stream, p, 0.25);
          EXPECT_EQ(got.top.values(), expected.top);
          // An exponential is within 2 roundings of its value and its argument, of up
          // to 35, is rounded once where the result is far below 1; 64 lanes add up to
          // 64 terms each before blocks meet in float64.
          expect_values(got.total, expected.total, 8);
          expect_values(got.target, expected.target, 1, 40);
          expect_values(got.loss, expected.loss, 8, 40);
          expect_values(got.logits, expected.gradient, 8, 0.25);
        }
      }
    }
  });
}

// Of rows with rising, falling and masked logits, whose sums are scaled at different times.
TEST(CrossEntropy, statistics_of_whole_rows_in_one_call_are_those_of_two) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    for (const std::int64_t width : {1, 7, 64, 5003}) {
      SCOPED_TRACE(width);
      CrossEntropyProblem p{5, width, dtype, 0};
      for (std::int64_t i = 0; i < width; ++i) {
        const double slope = 20.0 * static_cast<double>(i) / static_cast<double>(width);
        p.logits[i] = rounded(p.logits[i] + slope, dtype);
        p.logits[width + i] = rounded(p.logits[width + i] - slope, dtype);
        if (i > width / 2) p.logits[2 * width + i] = -kInfinity;
        p.logits[4 * width + i] = -kInfinity;
      }
      p.logits[3 * width] = kNan;
      const CrossEntropyApplied apart(stream, p);
      const Held logits(stream, {p.rows, p.width}, dtype, p.logits);
      const DType sums = accumulator_of(dtype);
      const Held top(stream, {p.rows}, sums), total(stream, {p.rows}, sums),
          target(stream, {p.rows}, sums);
      row_max_exp_sum(stream, top, total, target, logits, apart.targets);
      const auto same = [](const Held& a, const Held& b, double most) {
        const Values x = a.values(), y = b.values();
        for (std::size_t i = 0; i < x.size(); ++i) {
          if (std::isnan(y[i]) || x[i] == y[i]) {
            EXPECT_EQ(std::isnan(x[i]), std::isnan(y[i])) << "row " << i;
          } else {
            EXPECT_LE(std::abs(x[i] - y[i]), most * std::abs(y[i])) << "row " << i;
          }
        }
      };
      same(top, apart.top, 0);
      same(target, apart.target, 0);
      same(total, apart.total, sums == DType::kF64 ? 1e-14 : 4e-6);
    }
  });
}

// One column beside a known top shows the kernel's exponential bare.
TEST(CrossEntropy, float32_exponential_is_within_two_units_over_its_whole_range) {
  on_every_platform([](Stream& stream) {
    Values x;
    for (double value = -110; value < 90; value += 0.00731) {
      x.push_back(rounded(value, DType::kF32));
    }
    for (const double value :
         {0.0, -0.0, 88.7228, -87.4, -103.9, -104.1, kInfinity, -kInfinity, kNan}) {
      x.push_back(rounded(value, DType::kF32));
    }
    const auto rows = static_cast<std::int64_t>(x.size());
    const Held logits(stream, {rows, 1}, DType::kF32, x);
    const Held top(stream, {rows}, DType::kF32, Values(x.size(), 0.0));
    const Held total(stream, {rows}, DType::kF32), target(stream, {rows}, DType::kF32);
    const Held targets(stream, {rows}, DType::kI32, Values(x.size(), 0.0));
    row_exp_sum(stream, total, target, logits, top, targets, 0);
    const Values got = total.values();
    double worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double expected = std::exp(x[i]);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(got[i]));
      } else if (expected > static_cast<double>(std::numeric_limits<float>::max())) {
        EXPECT_EQ(got[i], kInfinity) << "at " << x[i];
      } else {
        const double unit = std::max(std::ldexp(expected, -23), 0x1p-149);
        EXPECT_LE(std::fabs(got[i] - expected), 2 * unit) << "at " << x[i];
        if (expected > 1e-37) worst = std::max(worst, std::fabs(got[i] - expected) / unit);
      }
    }
    RecordProperty("worst_units", std::to_string(worst));
  });
}

TEST(CrossEntropy, holders_of_parts_together_are_the_whole) {
  on_every_platform([](Stream& stream) {
    const CrossEntropyProblem whole{5, 20};
    const CrossEntropyOutputs expected = cross_entropy_reference(whole, 1);
    Values logits[2], top(5, -kInfinity), total(5), target(5);
    for (std::int64_t row = 0; row < 5; ++row) {
      for (std::int64_t i = 0; i < 20; ++i) logits[i >= 12].push_back(whole.logits[row * 20 + i]);
    }
    const Held targets(stream, {5}, DType::kI32, whole.targets);
    const std::int64_t first[] = {0, 12}, width[] = {12, 8};
    for (int part : {0, 1}) {
      const Held held(stream, {5, width[part]}, DType::kF64, logits[part]);
      const Held most(stream, {5}, DType::kF64);
      row_max(stream, most, held);
      for (std::size_t i = 0; i < 5; ++i) top[i] = std::max(top[i], most.values()[i]);
    }
    const Held tops(stream, {5}, DType::kF64, top);
    for (int part : {0, 1}) {
      const Held held(stream, {5, width[part]}, DType::kF64, logits[part]);
      const Held sum(stream, {5}, DType::kF64), hit(stream, {5}, DType::kF64);
      row_exp_sum(stream, sum, hit, held, tops, targets, first[part]);
      for (std::size_t i = 0; i < 5; ++i) {
        total[i] += sum.values()[i];
        target[i] += hit.values()[i];
      }
    }
    const Held totals(stream, {5}, DType::kF64, total), hits(stream, {5}, DType::kF64, target);
    const Held loss(stream, {5}, DType::kF64);
    cross_entropy(stream, loss, tops, totals, hits, targets);
    expect_values(loss, expected.loss, 8);
    for (int part : {0, 1}) {
      const Held held(stream, {5, width[part]}, DType::kF64, logits[part]);
      cross_entropy_backward(stream, held, tops, totals, targets, first[part], {});
      Values gradient;
      for (std::int64_t row = 0; row < 5; ++row) {
        for (std::int64_t i = 0; i < width[part]; ++i) {
          gradient.push_back(expected.gradient[row * 20 + first[part] + i]);
        }
      }
      expect_values(held, gradient, 8, 1);
    }
  });
}

TEST(CrossEntropy, backward_is_the_derivative) {
  on_every_platform([](Stream& stream) {
    CrossEntropyProblem p{6, 19};
    p.targets[3] = 4;  // a loss is whole only where its target is
    expect_gradient(
        [&](const Values& logits) {
          CrossEntropyProblem changed = p;
          changed.logits = logits;
          const Values loss = CrossEntropyApplied(stream, changed).loss.values();
          return 0.5 * dot(loss, Values(loss.size(), 1.0));
        },
        p.logits, CrossEntropyApplied(stream, p, 0.5).logits.values());
  });
}

constexpr LogitForm kForms[] = {
    {.scale = 0.125}, {.soft_cap = 3}, {.z_loss = 0.1}, {.scale = 2, .soft_cap = 5, .z_loss = 0.2}};

TEST(CrossEntropy, transformed_logits_and_a_z_loss_are_their_formulas) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    for (const LogitForm& form : kForms) {
      for (const std::int64_t width : {1, 17, 64, 1003}) {
        SCOPED_TRACE(say(form.scale, " ", form.soft_cap, " ", form.z_loss, ", ", width));
        CrossEntropyProblem p{6, width, dtype};
        const Held transformed(stream, {p.rows, p.width}, dtype, p.logits);
        transform_logits(stream, transformed, form);
        const CrossEntropyApplied got(stream, p, 0.25, form);
        for (double& x : p.logits) {
          x *= form.scale;
          if (form.soft_cap > 0) x = form.soft_cap * std::tanh(x / form.soft_cap);
        }
        expect_values(transformed, p.logits, 4, 4);
        p.logits = transformed.values();  // as rounded
        const CrossEntropyOutputs expected = cross_entropy_reference(p, 0.25, form);
        expect_values(got.loss, expected.loss, 16, 40);
        expect_values(got.logits, expected.gradient, 16, 1);
      }
    }
  });
}

TEST(CrossEntropy, backward_of_transformed_logits_is_the_derivative) {
  on_every_platform([](Stream& stream) {
    for (const LogitForm& form : kForms) {
      CrossEntropyProblem p{6, 19};
      p.targets[3] = 4;
      expect_gradient(
          [&](const Values& logits) {
            CrossEntropyProblem changed = p;
            changed.logits = logits;
            const Values loss = CrossEntropyApplied(stream, changed, 1, form).loss.values();
            return 0.5 * dot(loss, Values(loss.size(), 1.0));
          },
          p.logits, CrossEntropyApplied(stream, p, 0.5, form).logits.values());
    }
  });
}

TEST(CrossEntropy, a_masked_column_has_no_gradient_under_a_cap) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    const CrossEntropyProblem p{1, 40, dtype};
    const Held logits(stream, {1, 40}, dtype, p.logits), targets(stream, {1}, DType::kI32, {3});
    const LogitForm form{.soft_cap = 30};
    transform_logits(stream, logits, form);
    mask_padding(stream, logits, 33);
    const DType sums = accumulator_of(dtype);
    const Held top(stream, {1}, sums), total(stream, {1}, sums), target(stream, {1}, sums);
    row_max_exp_sum(stream, top, total, target, logits, targets);
    cross_entropy_backward(stream, logits, top, total, targets, 0, {}, form);
    const Values gradient = logits.values();
    for (std::size_t i = 0; i < 40; ++i) EXPECT_EQ(gradient[i] == 0, i >= 33) << i;
  });
}

TEST(CrossEntropy, a_sure_and_right_prediction_keeps_its_small_gradient) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    CrossEntropyProblem p{1, 32, dtype};
    p.logits.assign(32, 0.0);
    p.logits[3] = 12;
    p.targets = {3};
    const CrossEntropyOutputs expected = cross_entropy_reference(p, 1);
    // p - 1 is about -2e-4: of a float32 sum near 1 a thousand-fold rounding is left.
    const double got = CrossEntropyApplied(stream, p).logits.values()[3];
    EXPECT_NEAR(got / expected.gradient[3], 1, std::max(roundoff(dtype), 2e-3));
  });
}

TEST(CrossEntropy, nan_spoils_its_row_only_and_ignored_rows_stay_zero) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    for (const std::int64_t column : {0, 40, 99}) {
      CrossEntropyProblem p{4, 100, dtype};
      p.logits[100 + column] = kNan;
      p.logits[200 + column] = kNan;  // row 2 is ignored
      const CrossEntropyApplied got(stream, p);
      const Values top = got.top.values(), total = got.total.values(), loss = got.loss.values();
      for (std::size_t row = 0; row < 4; ++row) {
        EXPECT_EQ(std::isnan(top[row]), row == 1 || row == 2);
        EXPECT_EQ(std::isnan(total[row]), row == 1 || row == 2);
        EXPECT_EQ(std::isnan(loss[row]), row == 1);
      }
      const Values gradient = got.logits.values();
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        EXPECT_EQ(std::isnan(gradient[i]), i / 100 == 1);
        if (i / 100 == 2) {
          EXPECT_EQ(gradient[i], 0);
        }
      }
    }
  });
}

TEST(CrossEntropy, columns_of_minus_infinity_count_for_nothing) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    CrossEntropyProblem p{1, 40, dtype};
    for (std::size_t i = 20; i < 40; ++i) p.logits[i] = -kInfinity;
    const CrossEntropyOutputs expected = cross_entropy_reference(p, 1);
    const CrossEntropyApplied got(stream, p);
    expect_values(got.total, expected.total, 8);
    expect_values(got.logits, expected.gradient, 8, 1);
  });
}

TEST(CrossEntropy, masked_padding_leaves_loss_and_gradient_of_the_other_columns) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    constexpr std::int64_t kWidth = 37, kPadded = 48, kRows = 5;
    const CrossEntropyProblem exact{kRows, kWidth, dtype};
    const CrossEntropyApplied expected(stream, exact);
    // Padding is larger than any logit: it would be seen.
    Values wide;
    for (std::int64_t row = 0; row < kRows; ++row) {
      wide.insert(wide.end(), exact.logits.begin() + row * kWidth,
                  exact.logits.begin() + (row + 1) * kWidth);
      wide.insert(wide.end(), kPadded - kWidth, 100);
    }
    Held padded(stream, {kRows, kPadded}, dtype, wide);
    mask_padding(stream, padded, kWidth);
    CrossEntropyProblem masked{kRows, kPadded, dtype};
    masked.logits = padded.values();
    masked.targets = exact.targets;
    // What the exact width has elsewhere must not be found in the padding.
    for (double& id : masked.targets) id = id == kWidth ? kPadded : id;
    const CrossEntropyApplied got(stream, masked);
    EXPECT_EQ(got.top.values(), expected.top.values());
    EXPECT_EQ(got.target.values(), expected.target.values());
    expect_values(got.total, expected.total.values(), 8);
    expect_values(got.loss, expected.loss.values(), 8);
    const Values gradient = got.logits.values();
    for (std::int64_t row = 0; row < kRows; ++row) {
      for (std::int64_t i = kWidth; i < kPadded; ++i) EXPECT_EQ(gradient[row * kPadded + i], 0);
    }
  });
}

TEST(CrossEntropy, bits_do_not_depend_on_threads) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    expect_thread_independent([&] {
      const CrossEntropyApplied got(stream, CrossEntropyProblem{37, 2003, dtype});
      return joined({&got.top, &got.total, &got.target, &got.loss, &got.logits});
    });
  });
}

}  // namespace
}  // namespace trireme::ops
