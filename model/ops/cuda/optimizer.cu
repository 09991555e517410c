#include "model/ops/optimizer.h"

#include <cmath>
#include <type_traits>

#include "model/device/cuda/launch.cuh"
#include "model/ops/cuda/adamw.cuh"
#include "model/ops/cuda/reduce.cuh"
#include "model/ops/cuda/values.cuh"

namespace trireme::ops::cuda {
namespace {

using trireme::cuda::extent;
using trireme::cuda::launch;
using trireme::cuda::parts;

constexpr int kThreads = 256;
constexpr int kAtOnce = 4;  // elements per thread

// Which elements a thread adds, and in which order, does not depend on the chunk's location.
template <class T>
__global__ __launch_bounds__(kThreads) void squares_of_chunks(double* partials, const T* x,
                                                              std::int64_t count, std::int64_t into,
                                                              std::int64_t size) {
  const std::int64_t chunk = blockIdx.x * size - into;
  const std::int64_t first = max(chunk, std::int64_t{0});
  const std::int64_t end = min(chunk + size, count);
  const bool fits = Vector<T, kAtOnce>::fits(x + first);
  double sum = 0;
  constexpr int kAhead = kNormChunk / (kThreads * kAtOnce);  // all loads are in flight together
  Vector<T, kAtOnce> ahead[kAhead];
#pragma unroll
  for (int j = 0; j < kAhead; ++j) {
    const std::int64_t i = first + (threadIdx.x + j * kThreads) * kAtOnce;
    ahead[j] = load_vector<T, kAtOnce>(x + i, end - i, fits);
  }
#pragma unroll
  for (int j = 0; j < kAhead; ++j) {
#pragma unroll
    for (int e = 0; e < kAtOnce; ++e) {
      const auto value = static_cast<double>(widened(ahead[j].x[e]));
      sum = std::fma(value, value, sum);
    }
  }
  sum = over_block<kThreads>(sum, [](double a, double b) { return a + b; });
  if (threadIdx.x == 0) partials[blockIdx.x] += sum;
}

// The sum of each group, by a warp, takes the place of its first element.
__global__ __launch_bounds__(kThreads) void add_groups(double* partials, std::int64_t count) {
  __shared__ double room[kThreads / 32][kNormGroup];
  const auto warp = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t first = (std::int64_t{blockIdx.x} * (kThreads / 32) + warp) * kNormGroup;
  if (first >= count) return;
  const int here = static_cast<int>(min(kNormGroup, count - first));
  const double sum = sum_in_order(partials + first, here, room[warp]);
  if (threadIdx.x % 32 == 0) partials[first] = sum;
}

// One block: all threads load the sums of groups, one adds in order.
template <class A>
__global__ __launch_bounds__(kThreads) void norm_and_scale(A* norm, A* scale,
                                                           const double* partials,
                                                           std::int64_t groups, const Clip how) {
  constexpr int kHere = 4 * kThreads;
  __shared__ double fetched[kHere];
  double squares = 0;
  for (std::int64_t first = 0; first < groups; first += kHere) {
    const int here = static_cast<int>(min(std::int64_t{kHere}, groups - first));
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < here; i += kThreads)
      fetched[i] = partials[(first + i) * kNormGroup];
    __syncthreads();
    if (threadIdx.x == 0) {
#pragma unroll 16
      for (int i = 0; i < here; ++i) squares += fetched[i];
    }
  }
  if (threadIdx.x != 0) return;
  const double length = std::sqrt(squares) / how.loss_scale;
  const A held = static_cast<A>(length);  // the value that the host reads
  *norm = held;
  const double factor = how.max_norm == 0 || length <= how.max_norm ? 1.0 : how.max_norm / length;
  const bool applies = held < static_cast<A>(INFINITY) && static_cast<double>(held) <= how.limit;
  *scale = static_cast<A>(applies ? factor / how.loss_scale : static_cast<double>(NAN));
}

template <class T>
struct AdamWRange {
  using A = Accumulator<T>;
  T* value = nullptr;
  A* master = nullptr;  // null: `value` is the master
  A *m = nullptr, *v = nullptr;
  const A *grad = nullptr, *grad_scale = nullptr;
  std::int64_t count = 0;
  AdamWFactors<A> factors;
  bool fits = false;  // all tensors are aligned for vectors
};

template <class T>
__global__ __launch_bounds__(kThreads) void adamw_range(const AdamWRange<T> op) {
  using A = Accumulator<T>;
  const std::int64_t i = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * kAtOnce;
  const std::int64_t left = op.count - i;
  if (left <= 0) return;
  const A scale = *op.grad_scale;
  if (std::isnan(scale)) return;
  const auto grad = load_vector<A, kAtOnce>(op.grad + i, left, op.fits);
  auto m = load_vector<A, kAtOnce>(op.m + i, left, op.fits);
  auto v = load_vector<A, kAtOnce>(op.v + i, left, op.fits);
  Vector<A, kAtOnce> master{};
  Vector<T, kAtOnce> value{};
  if (op.master) {
    master = load_vector<A, kAtOnce>(op.master + i, left, op.fits);
  } else {
    value = load_vector<T, kAtOnce>(op.value + i, left, op.fits);
  }
#pragma unroll
  for (int e = 0; e < kAtOnce; ++e) {
    const A old = op.master ? master.x[e] : widened(value.x[e]);
    master.x[e] = op.factors.update(m.x[e], v.x[e], grad.x[e] * scale, old);
    value.x[e] = rounded<T>(master.x[e]);
  }
  store_vector(op.m + i, m, left, op.fits);
  store_vector(op.v + i, v, left, op.fits);
  if (op.master) store_vector(op.master + i, master, left, op.fits);
  store_vector(op.value + i, value, left, op.fits);
}

}  // namespace

void add_chunk_squares(Stream& stream, Tensor partials, Tensor x, std::int64_t into,
                       std::int64_t chunk) {
  if (x.count() == 0) return;
  with_float(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    launch(squares_of_chunks<T>, extent(partials.count()), kThreads, 0, stream,
           partials.as<double>(), x.as<T>(), x.count(), into, chunk);
  });
}

void clip_scale(Stream& stream, Tensor norm, Tensor scale, Tensor partials, const Clip& how) {
  const std::int64_t groups = parts(partials.count(), kNormGroup);
  launch(add_groups, extent(parts(groups, kThreads / 32)), kThreads, 0, stream,
         partials.as<double>(), partials.count());
  with_float(norm.dtype, [&](auto zero) {
    using A = decltype(zero);
    if constexpr (kIsAccumulator<A>) {
      launch(norm_and_scale<A>, 1, kThreads, 0, stream, norm.as<A>(), scale.as<A>(),
             partials.as<double>(), groups, how);
    }
  });
}

void adamw(Stream& stream, const UpdateTensors& tensors, Tensor grad_scale, const AdamW& how) {
  const std::int64_t count = tensors.count();
  if (count == 0) return;
  const Tensor master = tensors.separate_master();
  const Tensor &m = tensors.state[0], &v = tensors.state[1];
  const auto whole = [](const Tensor& tensor) {
    return reinterpret_cast<std::uintptr_t>(tensor.data) % 16 == 0;
  };
  with_float(tensors.value.dtype, [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulator<T>;
    const AdamWRange<T> op{.value = tensors.value.as<T>(),
                           .master = master ? master.as<A>() : nullptr,
                           .m = m.as<A>(),
                           .v = v.as<A>(),
                           .grad = tensors.grad.as<A>(),
                           .grad_scale = grad_scale.as<A>(),
                           .count = count,
                           .factors = AdamWFactors<A>::of(how),
                           .fits = whole(tensors.value) && whole(master) && whole(m) && whole(v) &&
                                   whole(tensors.grad)};
    constexpr std::int64_t kBlock = kThreads * kAtOnce;
    launch(adamw_range<T>, extent(parts(count, kBlock)), kThreads, 0, stream, op);
  });
}

}  // namespace trireme::ops::cuda
