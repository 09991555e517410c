#include "model/ops/elementwise.h"

#include <array>
#include <cstring>

#define HWY_TARGET_INCLUDE "model/ops/cpu/elementwise.cpp"
#include "model/ops/cpu/simd/targets.h"
// Below, once per target.
#include "model/device/cpu/threads.h"
#include "model/ops/cpu/simd/elementwise.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::ops::cpu {
namespace HWY_NAMESPACE {
namespace {

using trireme::cpu::parallel_for;

constexpr std::int64_t kElementwiseGrain = 32768;

void add(Tensor y, Tensor a, Tensor b) {
  with_float(y.dtype, [&]<class T>(T) {
    parallel_for(y.count(), kElementwiseGrain, [&](std::int64_t first, std::int64_t last) {
      add_range(at<T>(y, first), at<T>(a, first), at<T>(b, first), last - first);
    });
  });
}

void scale(Tensor y, Tensor x, double factor) {
  with_float(y.dtype, [&]<class T>(T) {
    parallel_for(y.count(), kElementwiseGrain, [&](std::int64_t first, std::int64_t last) {
      scale_range(at<T>(y, first), at<T>(x, first), factor, last - first);
    });
  });
}

void cast(Tensor to, Tensor from) {
  with_float(to.dtype, [&]<class To>(To) {
    with_float(from.dtype, [&]<class From>(From) {
      parallel_for(to.count(), kElementwiseGrain, [&](std::int64_t first, std::int64_t last) {
        cast_range(at<To>(to, first), at<From>(from, first), last - first);
      });
    });
  });
}

void sum(Tensor total, Tensor x) {
  // Ranges depend only on the count, so that sums have a fixed order.
  constexpr std::int64_t kPieces = 256;
  const std::int64_t length = std::max<std::int64_t>(4096, (x.count() + kPieces - 1) / kPieces);
  const std::int64_t pieces = (x.count() + length - 1) / length;
  std::array<double, kPieces> sums{};
  with_float(x.dtype, [&]<class T>(T) {
    parallel_for(pieces, kElementwiseGrain / length + 1, [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t piece = from; piece < to; ++piece) {
        const std::int64_t first = piece * length;
        sums[static_cast<std::size_t>(piece)] =
            sum_of(at<T>(x, first), std::min(length, x.count() - first));
      }
    });
  });
  double all = 0;
  for (std::int64_t piece = 0; piece < pieces; ++piece)
    all += sums[static_cast<std::size_t>(piece)];
  *total.as<double>() = all;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace trireme::ops::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::ops::cpu {

HWY_EXPORT(add);
HWY_EXPORT(scale);
HWY_EXPORT(cast);
HWY_EXPORT(sum);

void add(Stream&, Tensor y, Tensor a, Tensor b) {
  HWY_DYNAMIC_DISPATCH(add)(y, a, b);
}
void scale(Stream&, Tensor y, Tensor x, double factor) {
  HWY_DYNAMIC_DISPATCH(scale)(y, x, factor);
}
void cast(Stream&, Tensor to, Tensor from) {
  HWY_DYNAMIC_DISPATCH(cast)(to, from);
}
void sum(Stream&, Tensor total, Tensor x) {
  HWY_DYNAMIC_DISPATCH(sum)(total, x);
}

constexpr std::int64_t kCopyGrain = 131072;  // bytes

void copy(Stream&, Tensor to, Tensor from) {
  trireme::cpu::parallel_for(static_cast<std::int64_t>(to.bytes()), kCopyGrain,
                             [&](std::int64_t first, std::int64_t last) {
                               std::memmove(to.data + first, from.data + first,
                                            static_cast<std::size_t>(last - first));
                             });
}

void zero(Stream&, Tensor y) {
  trireme::cpu::parallel_for(
      static_cast<std::int64_t>(y.bytes()), kCopyGrain, [&](std::int64_t first, std::int64_t last) {
        std::memset(y.data + first, 0, static_cast<std::size_t>(last - first));
      });
}

}  // namespace trireme::ops::cpu
#endif
