#include "model/ops/cpu/float8.h"

#include <array>

#include "model/device/cpu/threads.h"

namespace trireme::ops::cpu {
namespace {

using trireme::cpu::parallel_for;

constexpr std::int64_t kFloat8Grain = 32768;
constexpr std::int64_t kTile = 64;  // rows and columns; fits a cache

float magnitude_of(const Tensor& from) {
  const Bf16* const values = from.as<Bf16>();
  const std::int64_t count = from.count();
  // As integers the bits are ordered by magnitude, with NaN on top.
  unsigned most = 0;
#pragma omp parallel for reduction(max : most) if (count > kFloat8Grain)
  for (std::int64_t i = 0; i < count; ++i) most = std::max(most, values[i].bits & 0x7fffu);
  Bf16 amax;
  amax.bits = static_cast<std::uint16_t>(most);
  return static_cast<float>(amax);
}

template <Float8Format kFormat>
void quantize_as(std::uint8_t* to, const Tensor& from, float scale, bool transpose) {
  const Bf16* const values = from.as<Bf16>();
  const auto code = [scale](Bf16 value) {
    return to_float8<kFormat>(static_cast<float>(value) * scale);
  };
  if (!transpose) {
    parallel_for(from.count(), kFloat8Grain, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) to[i] = code(values[i]);
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
                     for (std::int64_t i = row; i < end; ++i)
                       to[j * rows + i] = code(values[i * columns + j]);
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

void quantize(Stream&, const Float8Matrix& to, Tensor from, Tensor /*parts*/, bool transpose) {
  const Float8Scale factor = float8_scale(to.format, magnitude_of(from));
  *to.inverse_scale.as<float>() = factor.inverse;
  auto* const codes = reinterpret_cast<std::uint8_t*>(to.codes.data);
  if (to.format == Float8Format::kE4M3) {
    quantize_as<Float8Format::kE4M3>(codes, from, factor.scale, transpose);
  } else {
    quantize_as<Float8Format::kE5M2>(codes, from, factor.scale, transpose);
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
