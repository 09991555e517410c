#include "model/ops/average.h"

#include "model/ops/cuda/weights.cuh"

namespace trireme::ops::cuda {
namespace {

using trireme::cuda::launch;

// A product that the compiler does not fuse with a sum.
__device__ inline float rounded_product(float a, float b) {
  return __fmul_rn(a, b);
}
__device__ inline double rounded_product(double a, double b) {
  return __dmul_rn(a, b);
}

template <int kCount, class A>
__global__ void update_average_kernel(A* average, const A* weight, const A* grad_scale,
                                      std::int64_t count, A rest) {
  if (*grad_scale != *grad_scale) return;
  over_flat<kCount>(count, [&]<int n>(Count<n>, std::int64_t first) {
    A old[n], w[n];
    load(old, average + first);
    load(w, weight + first);
#pragma unroll
    for (int k = 0; k < n; ++k) old[k] += rounded_product(rest, w[k] - old[k]);
    store(average + first, old);
  });
}

template <class A>
void update(Stream& stream, const Tensor& average, const Tensor& weight, const Tensor& grad_scale,
            double decay) {
  const std::int64_t count = average.count();
  const auto run = [&]<int n>(Count<n>) {
    launch(update_average_kernel<n, A>, flat_blocks<n>(count), kFlatThreads, 0, stream,
           at<A>(average), at<A>(weight), at<A>(grad_scale), count, static_cast<A>(1 - decay));
  };
  with_fours<A>(run, average, weight);
}

}  // namespace

void update_average(Stream& stream, Tensor average, Tensor weight, Tensor grad_scale,
                    double decay) {
  if (average.dtype == DType::kF64) {
    update<double>(stream, average, weight, grad_scale, decay);
  } else {
    update<float>(stream, average, weight, grad_scale, decay);
  }
}

}  // namespace trireme::ops::cuda
