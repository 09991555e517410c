#include "model/ops/cpu/float8.h"

#include <algorithm>
#include <array>

#include "model/device/cpu/threads.h"

namespace trireme::ops::cpu {
namespace {

using trireme::cpu::parallel_for;

constexpr std::int64_t kFloat8Grain = 32768;
constexpr std::int64_t kTile = 64;  // rows and columns; fits a cache

// As integers the bits are ordered by magnitude, with NaN on top.
unsigned magnitude_bits(const Tensor& from) {
  const Bf16* const values = from.as<Bf16>();
  const std::int64_t count = from.count();
  unsigned most = 0;
#pragma omp parallel for reduction(max : most) if (count > kFloat8Grain)
  for (std::int64_t i = 0; i < count; ++i) most = std::max(most, values[i].bits & 0x7fffu);
  return most;
}

float magnitude_for(const Quantization& op) {
  Bf16 amax;
  if (op.magnitudes) {
    const auto* const magnitudes = op.magnitudes.as<std::int32_t>();
    amax.bits = static_cast<std::uint16_t>(*std::max_element(magnitudes, magnitudes + kMagnitudes));
  } else {
    amax.bits = static_cast<std::uint16_t>(magnitude_bits(op.from));
  }
  return static_cast<float>(amax);
}

template <Float8Format kFormat>
void quantize_as(const Quantization& op, float scale) {
  const Tensor& from = op.from;
  const Bf16* const values = from.as<Bf16>();
  auto* const plain = reinterpret_cast<std::uint8_t*>(op.codes.data);
  auto* const transposed = reinterpret_cast<std::uint8_t*>(op.transposed.data);
  const auto code = [scale](Bf16 value) {
    return to_float8<kFormat>(static_cast<float>(value) * scale);
  };
  if (transposed == nullptr) {
    parallel_for(from.count(), kFloat8Grain, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) plain[i] = code(values[i]);
    });
    return;
  }
  const std::int64_t rows = from.rows(), columns = from.width();
  const std::int64_t tiles = (columns + kTile - 1) / kTile;
  parallel_for(tiles, kFloat8Grain / (kTile * rows) + 1,
               [&](std::int64_t first, std::int64_t last) {
                 for (std::int64_t row = 0; row < rows; row += kTile) {
                   const std::int64_t end = std::min(rows, row + kTile);
                   for (std::int64_t j = first * kTile; j < std::min(columns, last * kTile); ++j) {
                     for (std::int64_t i = row; i < end; ++i) {
                       const std::uint8_t made = code(values[i * columns + j]);
                       transposed[j * rows + i] = made;
                       if (plain != nullptr) plain[i * columns + j] = made;
                     }
                   }
                 }
               });
}

std::array<float, 256> values_of(Float8Format format) {
  std::array<float, 256> values{};
  for (std::size_t code = 0; code < values.size(); ++code) {
    values[code] = from_float8(static_cast<std::uint8_t>(code), format);
  }
  return values;
}

}  // namespace

void collect_magnitudes(Tensor magnitudes, const Tensor& stored) {
  auto* const all = magnitudes.as<std::int32_t>();
  std::fill_n(all, kMagnitudes, 0);
  all[0] = static_cast<std::int32_t>(magnitude_bits(stored));
}

void quantize(Stream&, const Quantization& op, Tensor /*parts*/) {
  float& inverse = *op.inverse_scale.as<float>();
  if (!op.is_scaled) inverse = float8_scale(op.format, magnitude_for(op)).inverse;
  const float scale = 1 / inverse;  // exact: a power of two, or NaN
  if (op.format == Float8Format::kE4M3) {
    quantize_as<Float8Format::kE4M3>(op, scale);
  } else {
    quantize_as<Float8Format::kE5M2>(op, scale);
  }
}

void dequantize(Stream&, Tensor to, const Float8Matrix& from) {
  std::array<Bf16, 256> values{};
  const std::array<float, 256> plain = values_of(from.format);
  for (std::size_t code = 0; code < values.size(); ++code) {
    values[code] = Bf16(plain[code] * *from.inverse_scale.as<float>());
  }
  const auto* const codes = reinterpret_cast<const std::uint8_t*>(from.codes.data);
  Bf16* const out = to.as<Bf16>();
  parallel_for(to.count(), kFloat8Grain, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) out[i] = values[codes[i]];
  });
}

}  // namespace trireme::ops::cpu
