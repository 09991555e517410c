// The magnitudes that ops collect of what they store, and their quantization.
#include <algorithm>
#include <array>

#include "model/ops/activation.h"
#include "model/ops/float8.h"
#include "model/ops/norm.h"
#include "tests/model/ops/op_test.h"

namespace trireme::test {
namespace {

using ops::Float8Matrix;

constexpr DType kBf16 = DType::kBf16, kI32 = DType::kI32;

// Of what is stored, as bits without the sign: integers in their order, NaN on top.
double largest_of(const Held& stored) {
  const std::vector<std::byte> bytes = stored.bits();
  unsigned largest = 0;
  for (std::size_t i = 0; i < bytes.size(); i += 2) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes.data() + i, 2);
    largest = std::max(largest, bits & 0x7fffu);
  }
  return largest;
}

void expect_magnitudes_of(const Held& stored, const Held& magnitudes) {
  const Values found = magnitudes.values();
  EXPECT_EQ(*std::max_element(found.begin(), found.end()), largest_of(stored));
  EXPECT_GE(*std::min_element(found.begin(), found.end()), 0);
}

// Calls body(values) with random values, the largest of all sizes first, and with each number that
// is not finite.
template <class Body>
void with_inputs(std::int64_t count, const Body& body) {
  for (const double scale : {30.0, 1e-3}) body(random_values(count, 3, kBf16, scale));
  for (const double special : {kNan, kInfinity, -kInfinity}) {
    for (const std::int64_t at : {std::int64_t{0}, count / 2, count - 1}) {
      SCOPED_TRACE(say(special, " at ", at));
      Values values = random_values(count, 4, kBf16);
      values[static_cast<std::size_t>(at)] = special;
      body(values);
    }
  }
}

constexpr Activation kKinds[] = {Activation::kGelu, Activation::kGeluTanh, Activation::kRelu2,
                                 Activation::kSilu};

TEST(Magnitudes, of_activations_are_the_largest_that_they_store) {
  on_every_platform([](Stream& stream) {
    for (const std::int64_t count : {1, 7, 64, 4099}) {
      const Held magnitudes(stream, {ops::kMagnitudes}, kI32), out(stream, {count}, kBf16);
      const Held dy(stream, {count}, kBf16, random_values(count, 5, kBf16));
      for (const Activation kind : kKinds) {
        SCOPED_TRACE(say(count, " ", static_cast<int>(kind)));
        with_inputs(count, [&](const Values& x) {
          const Held input(stream, {count}, kBf16, x), plain(stream, {count}, kBf16);
          ops::activate(stream, out, input, kind, magnitudes);
          expect_magnitudes_of(out, magnitudes);
          ops::activate(stream, plain, input, kind);
          EXPECT_EQ(out.bits(), plain.bits());
          ops::activate_backward(stream, out, dy, input, kind, magnitudes);
          expect_magnitudes_of(out, magnitudes);
          ops::activate_backward(stream, plain, dy, input, kind);
          EXPECT_EQ(out.bits(), plain.bits());
        });
      }
    }
  });
}

TEST(Magnitudes, of_gates_are_the_largest_that_they_store) {
  on_every_platform([](Stream& stream) {
    for (const auto& [rows, width] : {std::array{1, 1}, std::array{3, 5}, std::array{2, 64},
                                      std::array{5, 2312}, std::array{300, 8}}) {
      const std::int64_t count = std::int64_t{rows} * width;
      const Held magnitudes(stream, {ops::kMagnitudes}, kI32);
      const Held y(stream, {rows, width}, kBf16), dx(stream, {rows, 2 * width}, kBf16);
      const Held plain_y(stream, {rows, width}, kBf16), plain_dx(stream, {rows, 2 * width}, kBf16);
      const Held dy(stream, {rows, width}, kBf16, random_values(count, 5, kBf16));
      for (const Activation kind : kKinds) {
        SCOPED_TRACE(say(rows, " x ", width, " ", static_cast<int>(kind)));
        with_inputs(2 * count, [&](const Values& x) {
          const Held input(stream, {rows, 2 * width}, kBf16, x);
          ops::gate(stream, y, input, kind, 0, magnitudes);
          expect_magnitudes_of(y, magnitudes);
          ops::gate(stream, plain_y, input, kind);
          EXPECT_EQ(y.bits(), plain_y.bits());
          ops::gate_backward(stream, dx, dy, input, kind, 0, magnitudes);
          expect_magnitudes_of(dx, magnitudes);
          ops::gate_backward(stream, plain_dx, dy, input, kind);
          EXPECT_EQ(dx.bits(), plain_dx.bits());
        });
      }
    }
  });
}

// Rows of a part of a warp, of a warp, of several, and longer than a block holds in registers.
TEST(Magnitudes, of_norms_are_the_largest_that_they_store) {
  on_every_platform([](Stream& stream) {
    for (const auto& [rows, width] :
         {std::array{1, 1}, std::array{7, 5}, std::array{9, 64}, std::array{5, 1536},
          std::array{3, 1111}, std::array{2, 17000}}) {
      const std::int64_t count = std::int64_t{rows} * width;
      const Held magnitudes(stream, {ops::kMagnitudes}, kI32);
      const Held y(stream, {rows, width}, kBf16), plain(stream, {rows, width}, kBf16);
      const Held sum(stream, {rows, width}, kBf16);
      const Held mean(stream, {rows}, DType::kF32), inverse(stream, {rows}, DType::kF32);
      const Held residual(stream, {rows, width}, kBf16, random_values(count, 6, kBf16));
      const Held bias(stream, {width}, kBf16, random_values(width, 7, kBf16));
      for (const NormKind kind : {NormKind::kRmsNorm, NormKind::kLayerNorm}) {
        const bool layer_norm = kind == NormKind::kLayerNorm;
        SCOPED_TRACE(say(rows, " x ", width, layer_norm ? " LayerNorm" : " RMSNorm"));
        for (const double gain_scale : {20.0, 0.01}) {
          const Held gain(stream, {width}, kBf16, random_values(width, 8, kBf16, gain_scale));
          with_inputs(count, [&](const Values& x) {
            const Held input(stream, {rows, width}, kBf16, x);
            for (const bool adds : {false, true}) {
              const auto normalize = [&](const Tensor& to, const Tensor& largest) {
                ops::norm(stream, {.kind = kind,
                                   .y = to,
                                   .mean = layer_norm ? Tensor(mean) : Tensor{},
                                   .inverse = inverse,
                                   .sum = adds ? Tensor(sum) : Tensor{},
                                   .x = input,
                                   .residual = adds ? Tensor(residual) : Tensor{},
                                   .gain = gain,
                                   .bias = layer_norm ? Tensor(bias) : Tensor{},
                                   .magnitudes = largest});
              };
              normalize(y, magnitudes);
              expect_magnitudes_of(y, magnitudes);
              normalize(plain, {});
              EXPECT_EQ(y.bits(), plain.bits());
            }
          });
        }
      }
    }
  });
}

struct Bits {
  std::vector<std::byte> codes, transposed, scale;
  bool operator==(const Bits&) const = default;
};

TEST(Magnitudes, give_the_codes_and_the_scale_of_a_pass_for_the_largest) {
  on_every_platform([](Stream& stream) {
    Arena arena(1 << 20, stream.device());
    const auto bits_of = [&](const Tensor& tensor) {
      std::vector<std::byte> bytes(tensor.bytes());
      copy_bytes(stream, bytes.data(), tensor.data, bytes.size());
      stream.synchronize();
      return bytes;
    };
    for (const Shape& shape : {Shape{16, 16}, Shape{48, 80}, Shape{400, 272}}) {
      const std::int64_t count = shape.count();
      const Held x(stream, shape, kBf16), magnitudes(stream, {ops::kMagnitudes}, kI32);
      with_inputs(count, [&](const Values& values) {
        const Held input(stream, shape, kBf16, values);
        ops::activate(stream, x, input, Activation::kGeluTanh, magnitudes);
        for (const Float8Format format : {Float8Format::kE4M3, Float8Format::kE5M2}) {
          SCOPED_TRACE(say(name_of(format), " of ", shape));
          const auto both = [&](const Tensor& largest) -> Bits {
            arena.reset();
            const Float8Matrix turned = Float8Matrix::take(arena, format, shape[1], shape[0]);
            const Float8Matrix plain = ops::quantize_both(stream, arena, turned, x, largest);
            return {bits_of(plain.codes), bits_of(turned.codes), bits_of(plain.inverse_scale)};
          };
          const Bits expected = both({});
          EXPECT_TRUE(both(magnitudes) == expected);
          for (const bool transpose : {false, true}) {
            arena.reset();
            const Float8Matrix one =
                ops::quantize(stream, arena, x, format, transpose, {}, magnitudes);
            EXPECT_EQ(bits_of(one.codes), transpose ? expected.transposed : expected.codes);
            EXPECT_EQ(bits_of(one.inverse_scale), expected.scale);
          }
        }
      });
    }
  });
}

TEST(Magnitudes, save_the_pass_for_the_largest_and_its_memory) {
  on_every_platform([](Stream& stream) {
    const Shape shape{160, 96};
    Arena arena(1 << 20, stream.device()), planned = Arena::unbounded(stream.device());
    std::vector<PlannedOp> recorded;
    Tally tally{.ops = &recorded};
    Stream planning(stream.device(), tally);
    const Held from(stream, shape, kBf16), magnitudes(stream, {ops::kMagnitudes}, kI32);
    ops::activate(stream, from, from, Activation::kRelu2, magnitudes);
    for (const auto& [on, memory] : {std::pair{&stream, &arena}, {&planning, &planned}}) {
      const Float8Matrix turned =
          Float8Matrix::take(*memory, Float8Format::kE5M2, shape[1], shape[0]);
      ops::quantize_both(*on, *memory, turned, from, magnitudes);
      ops::quantize(*on, *memory, from, Float8Format::kE4M3, false, {}, magnitudes);
    }
    EXPECT_EQ(planned.peak(), arena.peak());
    EXPECT_EQ(planned.peak(), planned.used());  // no workspace
    const auto count = static_cast<double>(shape.count());
    ASSERT_EQ(recorded.size(), 2U);
    EXPECT_EQ(recorded[0].bytes, (2 + 2) * count);
    EXPECT_EQ(recorded[1].bytes, (2 + 1) * count);
  });
}

TEST(Magnitudes, are_refused_where_nothing_quantizes) {
  on_every_platform([](Stream& stream) {
    Arena arena(1 << 16, stream.device());
    const Held magnitudes(stream, {ops::kMagnitudes}, kI32), few(stream, {16}, kI32);
    const Held half(stream, {16, 32}, kBf16), single(stream, {16, 32}, DType::kF32);
    const Held half_y(stream, {16, 16}, kBf16), single_y(stream, {16, 16}, DType::kF32);
    const Activation silu = Activation::kSilu;
    EXPECT_THROW(ops::activate(stream, half, half, silu, few), Error);
    EXPECT_THROW(ops::activate(stream, single, single, silu, magnitudes), Error);
    EXPECT_THROW(ops::activate_backward(stream, single, single, single, silu, magnitudes), Error);
    EXPECT_THROW(ops::gate(stream, single_y, single, silu, 0, magnitudes), Error);
    EXPECT_THROW(ops::gate(stream, half_y, half, silu, 7, magnitudes), Error);
    EXPECT_THROW(ops::gate_backward(stream, half, half_y, half, silu, 7, magnitudes), Error);
    EXPECT_THROW(ops::quantize(stream, arena, half, Float8Format::kE4M3, false, {}, few), Error);
  });
}

}  // namespace
}  // namespace trireme::test
