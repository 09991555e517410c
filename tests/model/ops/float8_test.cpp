#include "model/ops/float8.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "model/ops/gemm.h"
#include "tests/model/ops/op_test.h"

namespace trireme::test {
namespace {

using ops::Accumulate;
using ops::Float8Gemm;
using ops::Float8Matrix;
using ops::gemm_float8;
using ops::quantize;
using ops::quantize_both;
using ops::quantize_scaled;

constexpr Float8Format kFormats[] = {Float8Format::kE4M3, Float8Format::kE5M2};

// What the code stands for, by the definition of the formats and in float64.
double value_of(unsigned code, Float8Format format) {
  const bool is_e4m3 = format == Float8Format::kE4M3;
  const int mantissa_bits = is_e4m3 ? 3 : 2, bias = is_e4m3 ? 7 : 15;
  const int mantissa = static_cast<int>(code) & ((1 << mantissa_bits) - 1);
  const int exponent = static_cast<int>(code & 0x7f) >> mantissa_bits;
  const double sign = (code & 0x80) != 0 ? -1 : 1;
  if (is_e4m3 && (code & 0x7f) == 0x7f) return kNan;
  if (!is_e4m3 && exponent == 31) return mantissa == 0 ? sign * kInfinity : kNan;
  const double fraction = std::ldexp(mantissa, -mantissa_bits);
  return sign * (exponent == 0 ? std::ldexp(fraction, 1 - bias)
                               : std::ldexp(1 + fraction, exponent - bias));
}

// The finite numbers of at least zero, in order of their codes.
std::vector<double> numbers_of(Float8Format format) {
  std::vector<double> numbers;
  for (unsigned code = 0; std::isfinite(value_of(code, format)); ++code) {
    numbers.push_back(value_of(code, format));
  }
  return numbers;
}

// The nearest number's code by looking at all; of two as near the even one.
unsigned nearest(double value, Float8Format format) {
  static const std::array<std::vector<double>, 2> kNumbers{numbers_of(kFormats[0]),
                                                           numbers_of(kFormats[1])};
  const std::vector<double>& numbers = kNumbers[static_cast<std::size_t>(format)];
  const double magnitude = std::min(std::fabs(value), numbers.back());  // saturating
  std::size_t best = 0;
  for (std::size_t code = 1; code < numbers.size(); ++code) {
    const double gain = std::fabs(numbers[best] - magnitude) - std::fabs(numbers[code] - magnitude);
    if (gain > 0 || (gain == 0 && code % 2 == 0)) best = code;
  }
  return static_cast<unsigned>(best) | (std::signbit(value) ? 0x80 : 0);
}

unsigned coded(double value, Float8Format format) {
  const auto narrow = static_cast<float>(value);
  return format == Float8Format::kE4M3 ? to_float8<Float8Format::kE4M3>(narrow)
                                       : to_float8<Float8Format::kE5M2>(narrow);
}

TEST(Float8, every_code_has_the_value_of_its_definition_and_comes_back) {
  for (const Float8Format format : kFormats) {
    for (unsigned code = 0; code < 256; ++code) {
      SCOPED_TRACE(say(name_of(format), " ", code));
      const double expected = value_of(code, format);
      const auto got = static_cast<double>(from_float8(static_cast<std::uint8_t>(code), format));
      ASSERT_TRUE(got == expected || (std::isnan(got) && std::isnan(expected))) << got;
      ASSERT_EQ(std::signbit(got), std::signbit(expected));
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(value_of(coded(expected, format), format)));
      } else if (std::isinf(expected)) {
        EXPECT_EQ(coded(expected, format), code - 1);  // the largest number
      } else {
        EXPECT_EQ(coded(expected, format), code);
      }
    }
    EXPECT_EQ(numbers_of(format).back(), format == Float8Format::kE4M3 ? 448 : 57344);
  }
}

TEST(Float8, rounds_to_the_nearest_number_ties_to_even_and_saturates) {
  for (const Float8Format format : kFormats) {
    SCOPED_TRACE(name_of(format));
    const auto expect_nearest = [&](double value) {
      for (const double signed_value : {value, -value}) {
        ASSERT_EQ(coded(signed_value, format), nearest(signed_value, format)) << signed_value;
      }
    };
    const std::vector<double> numbers = numbers_of(format);
    for (std::size_t i = 1; i < numbers.size(); ++i) {
      const double middle = (numbers[i - 1] + numbers[i]) / 2;
      expect_nearest(middle);
      const auto tie = static_cast<float>(middle);
      expect_nearest(std::nextafter(tie, 0.0f));
      expect_nearest(std::nextafter(tie, 1e6f));
    }
    std::mt19937 random(1);
    for (int i = 0; i < 100000; ++i) {
      // Of all magnitudes that matter and some beyond.
      const double mantissa = std::ldexp(1 + random() % (1 << 23), -23);
      expect_nearest(
          static_cast<float>(std::ldexp(mantissa, static_cast<int>(random() % 44) - 24)));
    }
    for (const double beyond : {449.0, 480.0, 57345.0, 1e6, 3e38}) expect_nearest(beyond);
  }
}

TEST(Float8, the_scale_is_the_largest_power_of_two_that_fits) {
  for (const Float8Format format : kFormats) {
    const double largest = numbers_of(format).back();
    for (const float amax :
         {1.0f, 1.75f, 1.7578125f, 448.0f, 449.0f, 57344.0f, 57345.0f, 3e38f, 1e-20f, 0.3f}) {
      SCOPED_TRACE(say(name_of(format), " ", amax));
      const Float8Scale found = float8_scale(format, amax);
      const auto scaled = static_cast<double>(amax) * static_cast<double>(found.scale);
      EXPECT_LE(scaled, largest);
      EXPECT_GT(2 * scaled, largest);
      EXPECT_EQ(found.scale * found.inverse, 1);
      EXPECT_EQ(std::frexp(found.scale, std::array<int, 1>{}.data()), 0.5f);
    }
    for (const float tiny : {0.0f, 1e-44f, 1e-38f}) {
      EXPECT_EQ(float8_scale(format, tiny).scale, 0x1p100f);
    }
    for (const double lost : {kNan, kInfinity}) {
      EXPECT_TRUE(std::isnan(float8_scale(format, static_cast<float>(lost)).scale));
      EXPECT_TRUE(std::isnan(float8_scale(format, static_cast<float>(lost)).inverse));
    }
  }
}

struct Copied {
  std::vector<std::uint8_t> codes;
  float inverse = 0;
};
Copied copied(Stream& stream, const Float8Matrix& from) {
  Copied to;
  to.codes.resize(from.codes.bytes());
  copy_bytes(stream, reinterpret_cast<std::byte*>(to.codes.data()), from.codes.data,
             to.codes.size());
  copy_bytes(stream, reinterpret_cast<std::byte*>(&to.inverse), from.inverse_scale.data, 4);
  stream.synchronize();
  return to;
}

TEST(Quantize, has_the_codes_of_the_definition_on_every_device_as_it_lies_and_turned) {
  on_every_platform([](Stream& stream) {
    Arena arena(4 << 20, stream.device());
    const Shape shapes[] = {{16, 16}, {48, 80}, {112, 16}, {64, 192}, {400, 272}};
    for (const Shape& shape : shapes) {
      for (const Float8Format format : kFormats) {
        for (const bool transpose : {false, true}) {
          SCOPED_TRACE(say(name_of(format), " of ", shape, transpose ? " turned" : ""));
          Values values = random_values(shape.count(), 5, DType::kBf16, 3e-3);
          values[7] = -0.25;  // the largest magnitude
          values[8] = -0.0;
          values[9] = 1e-12;
          const Held from(stream, shape, DType::kBf16, values);
          arena.reset();
          const Float8Matrix made = quantize(stream, arena, from, format, transpose);
          const Copied got = copied(stream, made);
          const double scale = format == Float8Format::kE4M3 ? 1024 : 131072;  // times 0.25 fits
          ASSERT_EQ(static_cast<double>(got.inverse), 1 / scale);
          const std::int64_t rows = shape[0], columns = shape[1];
          ASSERT_EQ(made.rows(), transpose ? columns : rows);
          ASSERT_EQ(made.columns(), transpose ? rows : columns);
          for (std::int64_t i = 0; i < rows; ++i) {
            for (std::int64_t j = 0; j < columns; ++j) {
              const std::int64_t at = transpose ? j * rows + i : i * columns + j;
              const double value = values[static_cast<std::size_t>(i * columns + j)];
              ASSERT_EQ(got.codes[static_cast<std::size_t>(at)], nearest(value * scale, format))
                  << i << ", " << j << ": " << value;
            }
          }
        }
      }
    }
  });
}

TEST(Quantize, of_zeros_is_zeros_and_of_what_is_not_finite_no_number) {
  on_every_platform([](Stream& stream) {
    Arena arena(1 << 16, stream.device());
    const Held zeros(stream, {16, 32}, DType::kBf16, Values(512, 0));
    const Copied none = copied(stream, quantize(stream, arena, zeros, kFormats[0], false));
    EXPECT_EQ(none.codes, std::vector<std::uint8_t>(512, 0));
    EXPECT_EQ(none.inverse, 0x1p-100f);
    for (const double lost : {kNan, kInfinity, -kInfinity}) {
      Values values = random_values(512, 1, DType::kBf16);
      values[300] = lost;
      const Held from(stream, {16, 32}, DType::kBf16, values);
      EXPECT_TRUE(
          std::isnan(copied(stream, quantize(stream, arena, from, kFormats[1], true)).inverse));
    }
  });
}

// By its bits: NaN too.
void expect_same(const Copied& got, const Copied& expected) {
  EXPECT_EQ(got.codes, expected.codes);
  EXPECT_EQ(std::memcmp(&got.inverse, &expected.inverse, 4), 0)
      << got.inverse << ", expected " << expected.inverse;
}

TEST(Quantize, in_both_orientations_or_with_a_known_scale_has_the_bits_of_two_passes_each) {
  on_every_platform([](Stream& stream) {
    Arena arena(4 << 20, stream.device());
    const Shape shapes[] = {{16, 16}, {48, 80}, {112, 16}, {16, 208}, {64, 192}, {400, 272}};
    for (const Shape& shape : shapes) {
      for (const Float8Format format : kFormats) {
        for (const double special : {1.0, 0.0, 3e38, 1e-37, kNan, -kInfinity}) {
          SCOPED_TRACE(say(name_of(format), " of ", shape, " with ", special));
          Values values = special == 0 ? Values(static_cast<std::size_t>(shape.count()), 0)
                                       : random_values(shape.count(), 5, DType::kBf16, 3e-3);
          values[static_cast<std::size_t>(shape.count() - 3)] = special;
          const Held from(stream, shape, DType::kBf16, values);
          arena.reset();
          const Copied plain = copied(stream, quantize(stream, arena, from, format, false));
          const Copied turned = copied(stream, quantize(stream, arena, from, format, true));
          const Float8Matrix transposed = Float8Matrix::take(arena, format, shape[1], shape[0]);
          const Float8Matrix made = quantize_both(stream, arena, transposed, from);
          EXPECT_EQ(made.rows(), shape[0]);
          EXPECT_EQ(made.columns(), shape[1]);
          EXPECT_EQ(made.format, format);
          expect_same(copied(stream, made), plain);
          expect_same(copied(stream, transposed), turned);
          const Tensor kept = arena.take({1}, DType::kF32);
          expect_same(copied(stream, quantize(stream, arena, from, format, false, kept)), plain);
          for (const bool transpose : {false, true}) {
            expect_same(
                copied(stream, quantize_scaled(stream, arena, from, format, transpose, kept)),
                transpose ? turned : plain);
          }
        }
      }
    }
  });
}

TEST(Quantize, takes_on_a_planning_stream_what_it_takes_and_records_its_passes) {
  on_every_platform([](Stream& stream) {
    Arena arena(1 << 20, stream.device()), planned = Arena::unbounded(stream.device());
    std::vector<PlannedOp> recorded;
    Tally tally{.ops = &recorded};
    Stream planning(stream.device(), tally);
    const Shape shape{160, 96};
    const Held from(stream, shape, DType::kBf16);
    const auto make = [&](Stream& on, Arena& memory) {
      const Float8Matrix transposed = Float8Matrix::take(memory, kFormats[1], shape[1], shape[0]);
      const Float8Matrix plain = quantize_both(on, memory, transposed, from);
      quantize_scaled(on, memory, from, kFormats[1], true, plain.inverse_scale);
    };
    make(stream, arena);
    make(planning, planned);
    EXPECT_EQ(planned.peak(), arena.peak());
    EXPECT_EQ(planned.used(), arena.used());
    const auto count = static_cast<double>(shape.count());
    ASSERT_EQ(recorded.size(), 3u);
    EXPECT_EQ(recorded[0].bytes, 2 * count);        // the largest magnitude
    EXPECT_EQ(recorded[1].bytes, (2 + 2) * count);  // both codes
    EXPECT_EQ(recorded[2].bytes, (2 + 1) * count);
  });
}

// On every platform that has such products.
template <class Body>
void on_every_platform_with_products(const Body& body) {
  on_every_platform([&](Stream& stream) {
    const std::string reason =
        stream.on_cuda() ? ops::why_no_float8(properties_of(stream.device())) : "";
    if (!reason.empty()) GTEST_SKIP() << reason;
    body(stream);
  });
}

TEST(GemmFloat8, takes_on_a_planning_stream_what_it_takes) {
  on_every_platform_with_products([](Stream& stream) {
    Arena arena(1 << 20, stream.device()), planned = Arena::unbounded(stream.device());
    Tally tally;
    Stream planning(stream.device(), tally);
    const Held from(stream, {160, 96}, DType::kBf16);
    Arena other(1 << 20, stream.device());
    const Tensor c = other.take({160, 160}, DType::kBf16);
    const auto multiply = [&](Stream& on, Arena& memory) {
      const Float8Matrix a = quantize(on, memory, from, kFormats[0], false);
      gemm_float8(on, memory, {c, a, a});
    };
    multiply(stream, arena);
    multiply(planning, planned);
    EXPECT_EQ(planned.peak(), arena.peak());
    EXPECT_EQ(planned.used(), arena.used());
    EXPECT_EQ(tally.matmul, 2.0 * 160 * 160 * 96);
  });
}

struct Product {
  std::int64_t m, n, k;
  Float8Format a, b;
  DType out = DType::kBf16;
  Accumulate accumulate = Accumulate::kReplace;
  bool bias = false;
  bool addend = false;
};

// Against float64 sums of the codes' own values.
void expect_float8_product(Stream& stream, const Product& x) {
  SCOPED_TRACE(say(name_of(x.a), " ", name_of(x.b), " ", name_of(x.out), " ", x.m, " ", x.n, " ",
                   x.k, x.accumulate == Accumulate::kAdd ? " add" : "", x.bias ? " bias" : "",
                   x.addend ? " addend" : ""));
  Arena arena(8 << 20, stream.device());
  const Held a(stream, {x.m, x.k}, DType::kBf16, random_values(x.m * x.k, 1, DType::kBf16));
  const Held b(stream, {x.n, x.k}, DType::kBf16, random_values(x.n * x.k, 2, DType::kBf16, 1e-6));
  const Values start = random_values(x.m * x.n, 3, x.out, 1e-6);
  const Values bias_values = random_values(x.n, 4, DType::kBf16, 1e-6);
  // On the alignment that cuBLASLt wants, as arenas give it.
  const Tensor c = arena.take({x.m, x.n}, x.out);
  const Held given(stream, {x.m, x.n}, x.out, start),
      bias(stream, {x.n}, DType::kBf16, bias_values);
  copy_bytes(stream, c.data, Tensor(given).data, c.bytes());
  const Values addend_values = random_values(x.m * x.n, 5, x.out, 1e-6);
  const Held held_addend(stream, {x.m, x.n}, x.out, addend_values);
  const Tensor addend = arena.take({x.m, x.n}, x.out);
  copy_bytes(stream, addend.data, Tensor(held_addend).data, addend.bytes());
  const Float8Matrix left = quantize(stream, arena, a, x.a, false);
  const Float8Matrix right = quantize(stream, arena, b, x.b, false);
  gemm_float8(stream, arena,
              {c, left, right, x.accumulate, x.bias ? Tensor(bias) : Tensor{},
               x.addend ? addend : Tensor{}});
  copy_bytes(stream, Tensor(given).data, c.data, c.bytes());
  const Copied of_left = copied(stream, left), of_right = copied(stream, right);
  const Values got = given.values();
  const double unit = static_cast<double>(of_left.inverse) * static_cast<double>(of_right.inverse);
  for (std::int64_t i = 0; i < x.m; ++i) {
    for (std::int64_t j = 0; j < x.n; ++j) {
      const auto at = static_cast<std::size_t>(i * x.n + j);
      double sum = x.accumulate == Accumulate::kAdd ? start[at]
                   : x.bias                         ? bias_values[static_cast<std::size_t>(j)]
                                                    : 0;
      const double added = x.addend ? addend_values[at] : 0;
      sum += added;
      double magnitude = std::fabs(sum) + std::fabs(added);
      for (std::int64_t p = 0; p < x.k; ++p) {
        const double product =
            value_of(of_left.codes[static_cast<std::size_t>(i * x.k + p)], x.a) *
            value_of(of_right.codes[static_cast<std::size_t>(j * x.k + p)], x.b) * unit;
        sum += product;
        magnitude += std::fabs(product);
      }
      // Each addition rounds once to float32, in the worst order; then the result is stored. Of
      // the terms that a device adds at once it keeps but some 14 bits and cuts the rest off
      // (DeepSeek-AI 2024, 3.3.2).
      const double adding = static_cast<double>(x.k + 2) * 0x1p-24 + (kTriesCuda ? 0x1p-12 : 0);
      // The CPU, and some of cuBLASLt's kernels, store the product before they add.
      const double stored = std::fabs(sum) + (x.addend ? std::fabs(sum - added) : 0);
      const double allowed = adding * magnitude + roundoff(x.out) * stored;
      ASSERT_NEAR(got[at], sum, allowed * 1.001) << i << ", " << j;
    }
  }
}

TEST(GemmFloat8, multiplies_the_values_of_the_codes) {
  on_every_platform_with_products([](Stream& stream) {
    for (const auto& [m, n, k] :
         {std::array{16, 32, 48}, std::array{64, 16, 80}, std::array{48, 112, 256}}) {
      for (const Float8Format a : kFormats) {
        expect_float8_product(stream, {m, n, k, a, kFormats[0]});
        expect_float8_product(stream, {m, n, k, a, kFormats[0], DType::kF32});
        expect_float8_product(stream, {m, n, k, a, kFormats[0], DType::kF32, Accumulate::kAdd});
        expect_float8_product(stream,
                              {m, n, k, a, kFormats[0], DType::kBf16, Accumulate::kReplace, true});
        for (const bool bias : {false, true}) {
          expect_float8_product(
              stream, {m, n, k, a, kFormats[0], DType::kBf16, Accumulate::kReplace, bias, true});
        }
      }
      expect_float8_product(stream, {m, n, k, kFormats[0], kFormats[1]});
    }
  });
}

TEST(GemmFloat8, hands_on_that_a_factor_was_not_finite) {
  on_every_platform_with_products([](Stream& stream) {
    Arena arena(1 << 20, stream.device());
    Values values = random_values(512, 1, DType::kBf16);
    values[77] = kInfinity;
    const Held a(stream, {16, 32}, DType::kBf16, values);
    const Held b(stream, {16, 32}, DType::kBf16, random_values(512, 2, DType::kBf16));
    const Tensor c = arena.take({16, 16}, DType::kF32);
    gemm_float8(stream, arena,
                {c, quantize(stream, arena, a, kFormats[1], false),
                 quantize(stream, arena, b, kFormats[0], false)});
    const Held got(stream, {16, 16}, DType::kF32);
    copy_bytes(stream, Tensor(got).data, c.data, c.bytes());
    for (const double value : got.values()) EXPECT_TRUE(std::isnan(value));
  });
}

TEST(GemmFloat8, refuses_what_no_library_multiplies) {
  on_every_platform_with_products([](Stream& stream) {
    Arena arena(1 << 20, stream.device());
    const auto held = [&](const Shape& shape, DType dtype) { return arena.take(shape, dtype); };
    const auto made = [&](const Shape& shape, Float8Format format) {
      return quantize(stream, arena, held(shape, DType::kBf16), format, false);
    };
    EXPECT_THROW(made({16, 24}, kFormats[0]), Error);
    EXPECT_THROW(made({8, 32}, kFormats[0]), Error);
    EXPECT_THROW(quantize(stream, arena, held({16, 16}, DType::kF32), kFormats[0], false), Error);
    EXPECT_THROW(
        quantize_both(stream, arena, made({16, 32}, kFormats[0]), held({16, 32}, DType::kBf16)),
        Error);
    const Float8Matrix a = made({16, 32}, kFormats[0]), gradient = made({16, 32}, kFormats[1]);
    const Tensor c = held({16, 16}, DType::kBf16), wide = held({16, 16}, DType::kF32);
    const Tensor bias = held({16}, DType::kBf16);
    EXPECT_THROW(gemm_float8(stream, arena, {c, gradient, gradient}), Error);
    EXPECT_THROW(gemm_float8(stream, arena, {c, a, made({16, 48}, kFormats[0])}), Error);
    EXPECT_THROW(gemm_float8(stream, arena, {held({16, 32}, DType::kBf16), a, a}), Error);
    EXPECT_THROW(gemm_float8(stream, arena, {held({16, 16}, DType::kF64), a, a}), Error);
    EXPECT_THROW(gemm_float8(stream, arena, {wide, a, a, Accumulate::kReplace, bias}), Error);
    EXPECT_THROW(gemm_float8(stream, arena, {c, a, a, Accumulate::kAdd, bias}), Error);
  });
}

TEST(GemmFloat8, says_which_devices_have_it) {
  EXPECT_EQ(ops::why_no_float8({.name = "H100", .major = 9, .minor = 0, .bus_id = ""}), "");
  EXPECT_EQ(ops::why_no_float8({.name = "L4", .major = 8, .minor = 9, .bus_id = ""}), "");
  EXPECT_EQ(ops::why_no_float8({.name = "A100", .major = 8, .minor = 0, .bus_id = ""}),
            "A100 has compute capability 8.0; float8 needs 8.9 or newer");
}

}  // namespace
}  // namespace trireme::test
