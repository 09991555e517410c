#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "model/device/copy.h"
#include "model/device/devices.h"
#include "model/device/memory.h"
#include "model/ops/gemm.h"
#include "model/ops/gemm_choices.h"

namespace trireme::ops {
namespace {

constexpr Device kCuda{Device::Kind::kCuda, 0};

double read(const std::byte* data, DType dtype, std::int64_t i) {
  if (dtype == DType::kF64) return reinterpret_cast<const double*>(data)[i];
  if (dtype == DType::kF32) return static_cast<double>(reinterpret_cast<const float*>(data)[i]);
  if (dtype == DType::kF16)
    return static_cast<double>(float(reinterpret_cast<const F16*>(data)[i]));
  return static_cast<double>(float(reinterpret_cast<const Bf16*>(data)[i]));
}

// A tensor on the device, `shift` elements off the best alignment, and what it held at first.
struct Operand {
  Operand(Stream& stream, Shape shape, DType dtype, std::uint32_t seed, std::int64_t shift = 0)
      : memory((static_cast<std::size_t>(shape.count() + shift)) * size_of(dtype), kCuda),
        tensor{memory.data() + static_cast<std::size_t>(shift) * size_of(dtype), dtype, shape,
               kCuda},
        host(tensor.bytes()) {
    std::mt19937 random(seed);
    for (std::int64_t i = 0; i < shape.count(); ++i) {
      const float value = static_cast<float>(random() % 511) / 64 - 4;  // exact in bfloat16 or near
      std::byte* const at = host.data() + static_cast<std::size_t>(i) * size_of(dtype);
      const double wide = static_cast<double>(value);
      const Bf16 narrow(value);
      const F16 half(value);
      const void* const from = dtype == DType::kF64   ? static_cast<const void*>(&wide)
                               : dtype == DType::kF32 ? static_cast<const void*>(&value)
                               : dtype == DType::kF16 ? static_cast<const void*>(&half)
                                                      : static_cast<const void*>(&narrow);
      std::memcpy(at, from, size_of(dtype));
    }
    copy_bytes(stream, tensor.data, host.data(), host.size());
    stream.synchronize();
  }
  double at(std::int64_t i) const { return read(host.data(), tensor.dtype, i); }
  std::vector<std::byte> now(Stream& stream) const {
    std::vector<std::byte> bytes(host.size());
    copy_bytes(stream, bytes.data(), tensor.data, bytes.size());
    stream.synchronize();
    return bytes;
  }

  Memory memory;
  Tensor tensor;
  std::vector<std::byte> host;
};

struct GemmCudaCase {
  DType in, out;
  std::int64_t m, n, k;
  bool transpose_a, transpose_b;
  Accumulate accumulate = Accumulate::kReplace;
  bool bias = false;
  std::int64_t shift = 0;
  bool addend = false;
};

void expect_gemm_cuda_product(Stream& stream, const GemmCudaCase& x) {
  SCOPED_TRACE(say(name_of(x.in), ">", name_of(x.out), " ", x.m, " ", x.n, " ", x.k, " ",
                   x.transpose_a ? "t" : "n", x.transpose_b ? "t" : "n",
                   x.accumulate == Accumulate::kAdd ? " add" : "", x.bias ? " bias" : "",
                   x.addend ? " addend" : "", " shift ", x.shift));
  const Operand a(stream, x.transpose_a ? Shape{x.k, x.m} : Shape{x.m, x.k}, x.in, 1, x.shift);
  const Operand b(stream, x.transpose_b ? Shape{x.n, x.k} : Shape{x.k, x.n}, x.in, 2);
  const Operand c(stream, {x.m, x.n}, x.out, 3);
  const Operand bias(stream, {x.n}, x.in, 4);
  const Operand addend(stream, {x.m, x.n}, x.out, 5);
  const Gemm how{x.transpose_a, x.transpose_b, x.accumulate, x.bias ? bias.tensor : Tensor{},
                 x.addend ? addend.tensor : Tensor{}};
  gemm(stream, c.tensor, a.tensor, b.tensor, how);
  const std::vector<std::byte> got = c.now(stream);
  const double roundoff = x.in == DType::kF64 ? 0x1p-53 : 0x1p-24;
  const double stored = x.out == DType::kF64   ? 0x1p-53
                        : x.out == DType::kF32 ? 0x1p-24
                        : x.out == DType::kF16 ? 0x1p-11
                                               : 0x1p-8;
  for (std::int64_t i = 0; i < x.m; ++i) {
    for (std::int64_t j = 0; j < x.n; ++j) {
      double sum = x.accumulate == Accumulate::kAdd ? c.at(i * x.n + j) : x.bias ? bias.at(j) : 0;
      if (x.addend) sum += addend.at(i * x.n + j);
      const double added = sum;
      double magnitude = std::fabs(sum);
      for (std::int64_t p = 0; p < x.k; ++p) {
        const double product = a.at(x.transpose_a ? p * x.m + i : i * x.k + p) *
                               b.at(x.transpose_b ? j * x.k + p : p * x.n + j);
        sum += product;
        magnitude += std::fabs(product);
      }
      // Each of k + 1 additions rounds once, in the worst order; then the result is stored. Some of
      // cuBLASLt's kernels also store the product before a bias or the old values are added.
      const double product_stored = added == 0 ? 0 : stored * std::fabs(sum - added);
      const double allowed = static_cast<double>(x.k + 1) * roundoff * magnitude +
                             stored * std::fabs(sum) + product_stored;
      ASSERT_NEAR(read(got.data(), x.out, i * x.n + j), sum, allowed) << i << ", " << j;
    }
  }
}

TEST(GemmOnCuda, MultipliesEveryLayoutAndDtype) {
  if (cuda_devices().count == 0) GTEST_SKIP() << cuda_devices().reason;
  Stream stream(kCuda);
  constexpr DType kF32 = DType::kF32, kF64 = DType::kF64, kBf16 = DType::kBf16, kF16 = DType::kF16;
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      for (const auto& [m, n, k] :
           {std::array{1, 8, 3}, {17, 33, 5}, {64, 96, 128}, {130, 72, 257}}) {
        for (const DType dtype : {kF32, kF64, kBf16, kF16}) {
          expect_gemm_cuda_product(stream, {dtype, dtype, m, n, k, ta, tb});
          expect_gemm_cuda_product(stream,
                                   {dtype, dtype, m, n, k, ta, tb, Accumulate::kReplace, true});
          expect_gemm_cuda_product(stream, {dtype, dtype, m, n, k, ta, tb, Accumulate::kAdd});
          for (const bool bias : {false, true}) {
            expect_gemm_cuda_product(
                stream, {dtype, dtype, m, n, k, ta, tb, Accumulate::kReplace, bias, 0, true});
          }
        }
        for (const DType dtype : {kBf16, kF16}) {
          expect_gemm_cuda_product(stream, {dtype, kF32, m, n, k, ta, tb});
          expect_gemm_cuda_product(stream, {dtype, kF32, m, n, k, ta, tb, Accumulate::kAdd});
        }
        expect_gemm_cuda_product(stream,
                                 {kF32, kF32, m, n, k, ta, tb, Accumulate::kReplace, false, 1});
      }
    }
  }
}

TEST(GemmOnCuda, GivesTheSameBitsTwiceAndKeepsItsChoice) {
  if (cuda_devices().count == 0) GTEST_SKIP() << cuda_devices().reason;
  Stream stream(kCuda);
  const Operand a(stream, {256, 512}, DType::kBf16, 1), b(stream, {384, 512}, DType::kBf16, 2);
  const Operand c(stream, {256, 384}, DType::kBf16, 3);
  const Gemm how{.transpose_b = true};
  gemm(stream, c.tensor, a.tensor, b.tensor, how);
  const std::vector<std::byte> first = c.now(stream);
  const std::string chosen = gemm_choices();
  EXPECT_NE(chosen.find("cublaslt:"), std::string::npos) << chosen;
  use_gemm_choices(chosen);
  gemm(stream, c.tensor, a.tensor, b.tensor, how);
  EXPECT_TRUE(c.now(stream) == first);
  EXPECT_EQ(gemm_choices(), chosen);
}

TEST(GemmOnCuda, OfNothingIsZeroOrTheBias) {
  if (cuda_devices().count == 0) GTEST_SKIP() << cuda_devices().reason;
  Stream stream(kCuda);
  const Operand a(stream, {5, 0}, DType::kF32, 1), b(stream, {0, 3}, DType::kF32, 2);
  const Operand c(stream, {5, 3}, DType::kF32, 3), bias(stream, {3}, DType::kF32, 4);
  gemm(stream, c.tensor, a.tensor, b.tensor, {.accumulate = Accumulate::kAdd});
  EXPECT_TRUE(c.now(stream) == c.host);
  gemm(stream, c.tensor, a.tensor, b.tensor, {.bias = bias.tensor});
  const std::vector<std::byte> rows = c.now(stream);
  for (std::int64_t i = 0; i < 15; ++i)
    EXPECT_EQ(read(rows.data(), DType::kF32, i), bias.at(i % 3));
  gemm(stream, c.tensor, a.tensor, b.tensor, {});
  EXPECT_TRUE(c.now(stream) == std::vector<std::byte>(c.host.size()));
}

TEST(GemmOnCuda, IsCountedAndItsWorkspaceIsPlanned) {
  Tally tally;
  Stream planning(kCuda, tally);
  const Tensor a{nullptr, DType::kF32, {4, 5}, kCuda}, b{nullptr, DType::kF32, {5, 6}, kCuda};
  gemm(planning, {nullptr, DType::kF32, {4, 6}, kCuda}, a, b, {});
  EXPECT_EQ(tally.matmul, 2.0 * 4 * 5 * 6);
  EXPECT_GT(gemm_workspace_bytes(kCuda), 0u);
  EXPECT_EQ(gemm_workspace_bytes(Device{}), 0u);
}

}  // namespace
}  // namespace trireme::ops
