#include "model/ops/cpu/matmul_openblas.h"

#include <cblas.h>

#include <algorithm>
#include <array>
#include <limits>
#include <sstream>

#define HWY_TARGET_INCLUDE "model/ops/cpu/matmul_openblas.cpp"
#include "model/ops/cpu/simd/targets.h"
// Below, once per target.
#include "model/base/error.h"
#include "model/device/cpu/threads.h"
#include "model/ops/cpu/simd/elementwise.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::ops::cpu {
namespace HWY_NAMESPACE {
namespace {

using trireme::cpu::parallel_for;

constexpr std::int64_t kRowGrain = 8;
constexpr std::int64_t kBlockM = 512, kBlockN = 1024, kBlockK = 512;
constexpr std::size_t kBlockBytes =
    sizeof(float) * (kBlockM * kBlockK + kBlockK * kBlockN + kBlockM * kBlockN);

CBLAS_TRANSPOSE transposed(bool yes) {
  return yes ? CblasTrans : CblasNoTrans;
}

// A product within larger row-major matrices.
template <class T>
struct Block {
  bool transpose_a, transpose_b;
  std::int64_t m, n, k;
  const T* a;
  std::int64_t lda;
  const T* b;
  std::int64_t ldb;
  T beta;
  T* c;
  std::int64_t ldc;
};

void multiply(const Block<float>& x) {
  cblas_sgemm(CblasRowMajor, transposed(x.transpose_a), transposed(x.transpose_b),
              static_cast<int>(x.m), static_cast<int>(x.n), static_cast<int>(x.k), 1.0f, x.a,
              static_cast<int>(x.lda), x.b, static_cast<int>(x.ldb), x.beta, x.c,
              static_cast<int>(x.ldc));
}
void multiply(const Block<double>& x) {
  cblas_dgemm(CblasRowMajor, transposed(x.transpose_a), transposed(x.transpose_b),
              static_cast<int>(x.m), static_cast<int>(x.n), static_cast<int>(x.k), 1.0, x.a,
              static_cast<int>(x.lda), x.b, static_cast<int>(x.ldb), x.beta, x.c,
              static_cast<int>(x.ldc));
}

template <class T>
void run_native(const MatMul& product) {
  const MatMulShape& s = product.shape;
  T* c = reinterpret_cast<T*>(product.c);
  const T* bias = reinterpret_cast<const T*>(product.bias);
  if (bias) {  // the product then accumulates into c, without a second pass
    parallel_for(s.m, kRowGrain, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) std::copy_n(bias, s.n, c + i * s.n);
    });
  }
  const bool add = bias || s.accumulate == Accumulate::kAdd;
  multiply(Block<T>{s.transpose_a, s.transpose_b, s.m, s.n, s.k,
                    reinterpret_cast<const T*>(product.a), s.lda,
                    reinterpret_cast<const T*>(product.b), s.transpose_b ? s.k : s.n,
                    static_cast<T>(add ? 1 : 0), c, s.n});
}

// A [rows, width] block of a 16-bit matrix as dense float32.
template <class T>
void widen(float* to, const T* from, std::int64_t rows, std::int64_t width, std::int64_t ld) {
  parallel_for(rows, kRowGrain, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) cast_range(to + i * width, from + i * ld, width);
  });
}

// Rounds a finished block into c, adding what remains. `width` is at most kBlockN.
template <class T>
void narrow(T* to, float* from, std::int64_t rows, std::int64_t width, std::int64_t ld,
            const T* bias, bool add) {
  parallel_for(rows, kRowGrain, [&](std::int64_t first, std::int64_t last) {
    std::array<float, kBlockN> more;
    for (std::int64_t i = first; i < last; ++i) {
      float* const row = from + i * width;
      const auto take = [&](const T* addend) {
        cast_range(more.data(), addend, width);
        for (std::int64_t j = 0; j < width; ++j) row[j] += more[static_cast<std::size_t>(j)];
      };
      if (bias) take(bias);
      if (add) take(to + i * ld);
      cast_range(to + i * ld, row, width);
    }
  });
}

// `a_block` has kBlockBytes.
template <class T>
void run_widened(const MatMul& product, float* a_block) {
  const MatMulShape& s = product.shape;
  float* const b_block = a_block + kBlockM * kBlockK;
  float* const c_block = b_block + kBlockK * kBlockN;
  const T* const a = reinterpret_cast<const T*>(product.a);
  const T* const b = reinterpret_cast<const T*>(product.b);
  const T* const bias = reinterpret_cast<const T*>(product.bias);
  const bool add = s.accumulate == Accumulate::kAdd, wide = s.out == DType::kF32;
  const std::int64_t ldb = s.transpose_b ? s.k : s.n;
  for (std::int64_t j = 0; j < s.n; j += kBlockN) {
    const std::int64_t n = std::min(kBlockN, s.n - j);
    for (std::int64_t i = 0; i < s.m; i += kBlockM) {
      const std::int64_t m = std::min(kBlockM, s.m - i);
      float* const c = wide ? reinterpret_cast<float*>(product.c) + i * s.n + j : c_block;
      const std::int64_t ldc = wide ? s.n : n;
      float beta = wide && add ? 1 : 0;
      if (wide && bias) {
        for (std::int64_t row = 0; row < m; ++row) widen(c + row * ldc, bias + j, 1, n, n);
        beta = 1;
      }
      for (std::int64_t p = 0; p < s.k; p += kBlockK) {
        const std::int64_t k = std::min(kBlockK, s.k - p);
        if (s.transpose_a)
          widen(a_block, a + p * s.lda + i, k, m, s.lda);
        else
          widen(a_block, a + i * s.lda + p, m, k, s.lda);
        if (s.transpose_b)
          widen(b_block, b + j * ldb + p, n, k, ldb);
        else
          widen(b_block, b + p * ldb + j, k, n, ldb);
        multiply(Block<float>{s.transpose_a, s.transpose_b, m, n, k, a_block, s.transpose_a ? m : k,
                              b_block, s.transpose_b ? k : n, beta, c, ldc});
        beta = 1;
      }
      if (!wide) {
        narrow(reinterpret_cast<T*>(product.c) + i * s.n + j, c_block, m, n, s.n,
               bias ? bias + j : nullptr, add);
      }
    }
  }
}

void run(const MatMul& product, float* blocks) {
  with_float(product.shape.in, [&]<class T>(T) {
    if constexpr (kIsAccumulator<T>) {
      run_native<T>(product);
    } else {
      run_widened<T>(product, blocks);
    }
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace trireme::ops::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::ops::cpu {

HWY_EXPORT(run);

std::string OpenBlas::name() const {
  std::istringstream words(openblas_get_config());
  std::string library, version;
  words >> library >> version;
  return library + " " + version + " " + openblas_get_corename();
}

void OpenBlas::run(const MatMul& product) {
  const MatMulShape& s = product.shape;
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  require(std::max({s.m, s.n, s.k, s.lda}) <= kMost, "gemm: ", s.m, " x ", s.n, " x ", s.k,
          " is beyond this OpenBLAS's 32-bit extents");
  if (size_of(s.in) == 2 && widened_.bytes() == 0)
    widened_ = Memory(HWY_NAMESPACE::kBlockBytes, Device{});
  HWY_DYNAMIC_DISPATCH(run)(product, reinterpret_cast<float*>(widened_.data()));
}

}  // namespace trireme::ops::cpu
#endif
