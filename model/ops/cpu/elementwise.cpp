#include "model/ops/elementwise.h"

#include <array>
#include <cstring>

#include "model/device/cpu/threads.h"
#include "model/ops/cpu/kernels.h"
#include "model/ops/cpu/simd/elementwise.h"

namespace trireme::ops::cpu {

using simd::Isa;
using trireme::cpu::parallel_for;

constexpr std::int64_t kElementwiseGrain = 32768;

void add(Stream&, Tensor y, Tensor a, Tensor b) {
  with_kernels(y.dtype, [&]<Isa isa, class T>() {
    parallel_for(y.count(), kElementwiseGrain, [&](std::int64_t first, std::int64_t last) {
      simd::add<isa, T>(at<T>(y, first), at<T>(a, first), at<T>(b, first), last - first);
    });
  });
}

void copy(Stream&, Tensor to, Tensor from) {
  parallel_for(static_cast<std::int64_t>(to.bytes()), kElementwiseGrain * 4,
               [&](std::int64_t first, std::int64_t last) {
                 std::memmove(to.data + first, from.data + first,
                              static_cast<std::size_t>(last - first));
               });
}

void zero(Stream&, Tensor y) {
  parallel_for(static_cast<std::int64_t>(y.bytes()), kElementwiseGrain * 4,
               [&](std::int64_t first, std::int64_t last) {
                 std::memset(y.data + first, 0, static_cast<std::size_t>(last - first));
               });
}

void cast(Stream&, Tensor to, Tensor from) {
  with_kernels(to.dtype, [&]<Isa isa, class To>() {
    with_float(from.dtype, [&](auto example) {
      using From = Seen<decltype(example)>;
      parallel_for(to.count(), kElementwiseGrain, [&](std::int64_t first, std::int64_t last) {
        simd::cast<isa, To, From>(at<To>(to, first), at<From>(from, first), last - first);
      });
    });
  });
}

void sum(Stream&, Tensor total, Tensor x) {
  // Ranges depend only on the count, so that sums have a fixed order.
  constexpr std::int64_t kPieces = 256;
  const std::int64_t length = std::max<std::int64_t>(4096, (x.count() + kPieces - 1) / kPieces);
  const std::int64_t pieces = (x.count() + length - 1) / length;
  std::array<double, kPieces> sums{};
  with_kernels(x.dtype, [&]<Isa isa, class T>() {
    parallel_for(pieces, kElementwiseGrain / length + 1, [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t piece = from; piece < to; ++piece) {
        const std::int64_t first = piece * length;
        sums[static_cast<std::size_t>(piece)] =
            simd::sum<isa, T>(at<T>(x, first), std::min(length, x.count() - first));
      }
    });
  });
  double all = 0;
  for (std::int64_t piece = 0; piece < pieces; ++piece)
    all += sums[static_cast<std::size_t>(piece)];
  *total.as<double>() = all;
}

}  // namespace trireme::ops::cpu
