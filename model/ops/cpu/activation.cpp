#include "model/ops/activation.h"

#include "model/device/cpu/threads.h"
#include "model/ops/cpu/kernels.h"
#include "model/ops/cpu/simd/activation.h"

namespace trireme::ops::cpu {

using simd::Isa;
using trireme::cpu::parallel_for;

constexpr std::int64_t kActivationGrain = 4096;  // one exponential per element

void gelu(Stream&, Tensor y, Tensor x) {
  with_kernels(x.dtype, [&]<Isa isa, class T>() {
    parallel_for(x.count(), kActivationGrain, [&](std::int64_t first, std::int64_t last) {
      simd::gelu<isa, T>(at<T>(y, first), at<T>(x, first), last - first);
    });
  });
}

void gelu_backward(Stream&, Tensor dx, Tensor dy, Tensor x) {
  with_kernels(x.dtype, [&]<Isa isa, class T>() {
    parallel_for(x.count(), kActivationGrain, [&](std::int64_t first, std::int64_t last) {
      simd::gelu_backward<isa, T>(at<T>(dx, first), at<T>(dy, first), at<T>(x, first),
                                  last - first);
    });
  });
}

void swiglu(Stream&, Tensor y, Tensor x) {
  const std::int64_t width = y.width();
  with_kernels(x.dtype, [&]<Isa isa, class T>() {
    parallel_for(y.rows(), kActivationGrain / width + 1,
                 [&](std::int64_t first, std::int64_t last) {
                   simd::swiglu<isa, T>(at<T>(y, first * width), at<T>(x, first * 2 * width),
                                        last - first, width);
                 });
  });
}

void swiglu_backward(Stream&, Tensor dx, Tensor dy, Tensor x) {
  const std::int64_t width = dy.width();
  with_kernels(x.dtype, [&]<Isa isa, class T>() {
    parallel_for(
        dy.rows(), kActivationGrain / width + 1, [&](std::int64_t first, std::int64_t last) {
          simd::swiglu_backward<isa, T>(at<T>(dx, first * 2 * width), at<T>(dy, first * width),
                                        at<T>(x, first * 2 * width), last - first, width);
        });
  });
}

}  // namespace trireme::ops::cpu
