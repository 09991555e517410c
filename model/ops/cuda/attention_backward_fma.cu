#include <cmath>

#include "model/device/cuda/launch.cuh"
#include "model/device/cuda/shared.cuh"
#include "model/ops/cuda/attention_fma.cuh"
#include "model/ops/cuda/attention_kernels.h"

// The two passes of attention_backward_mma.cu by multiply-adds.
namespace trireme::ops::cuda {
namespace {

using trireme::cuda::extent;
using trireme::cuda::launch;
using trireme::cuda::parts;

template <class In>
using QueryOf = SeeingQuery<typename In::Element, In::kIsPart>;

template <class In>
__device__ QueryOf<In> load_query(const In& in, const GradientOf<In>& gradient, int batch, int head,
                                  int query) {
  if (query >= in.seq) return {};
  const std::int64_t token = std::int64_t{batch} * in.seq + query;
  const std::int64_t at = token * in.heads + head;
  return QueryOf<In>::of(in, token, gradient.lse[at], gradient.delta[at]);
}

template <class In, int W, bool kOfKeys>
__global__ __launch_bounds__(FmaTile<typename In::Element, W>::kThreads,
                             1) void attention_backward_fma(const In in,
                                                            const GradientOf<In> gradient) {
  using T = typename In::Element;
  using F = FmaTile<T, W>;
  T* const own_first = trireme::cuda::dynamic_shared<T>();
  T* const own_second = own_first + F::kOwnSize;
  T* const other_first = own_second + F::kOwnSize;
  T* const other_second = other_first + F::kOtherSize;
  T* const weights = other_second + F::kOtherSize;  // [kOwn, kOther]
  auto* const readers = reinterpret_cast<QueryOf<In>*>(weights + F::kOwn * F::kOther);
  const int batch = static_cast<int>(blockIdx.z), y = static_cast<int>(blockIdx.y);
  const int group = in.group(), kv_head = kOfKeys ? y : y / group;
  const int tile = static_cast<int>(kOfKeys ? blockIdx.x : gridDim.x - 1 - blockIdx.x);
  const int first_own = tile * F::kOwn;
  const int end_own = min(first_own + F::kOwn, kOfKeys ? in.key_count() : in.seq);
  const int row = static_cast<int>(threadIdx.x) / F::kRowThreads;
  const int lane = static_cast<int>(threadIdx.x) % F::kRowThreads;
  const T scale = static_cast<T>(in.scale);

  const HeadRows<const T> k = in.keys(batch, kv_head), v = in.values(batch, kv_head);
  const RowRange range =
      kOfKeys ? in.readers(batch, first_own, end_own) : in.seen(batch, first_own, end_own);
  const int first_other = range.first / F::kOther * F::kOther;
  QueryOf<In> mine;
  if constexpr (kOfKeys) {
    load_fma_tile<T, W, F::kOwn>(own_first, k, first_own);
    load_fma_tile<T, W, F::kOwn>(own_second, v, first_own);
  } else {
    load_fma_tile<T, W, F::kOwn>(own_first, in.queries(batch, y), first_own);
    load_fma_tile<T, W, F::kOwn>(own_second, in.of_queries(gradient.dout, batch, y), first_own);
    mine = load_query(in, gradient, batch, y, first_own + row);
  }

  Vector<T> first_sum[F::kVectors] = {};
  Vector<T> second_sum[kOfKeys ? F::kVectors : 1] = {};
  for (int member = 0; member < (kOfKeys ? group : 1); ++member) {
    for (int first = first_other; first < range.end; first += F::kOther) {
      if constexpr (kOfKeys) {
        const int head = kv_head * group + member;
        load_fma_tile<T, W, F::kOther>(other_first, in.queries(batch, head), first);
        load_fma_tile<T, W, F::kOther>(other_second, in.of_queries(gradient.dout, batch, head),
                                       first);
        if (row == 0) {
          for (int i = lane; i < F::kOther; i += F::kRowThreads)
            readers[i] = load_query(in, gradient, batch, head, first + i);
        }
      } else {
        load_fma_tile<T, W, F::kOther>(other_first, k, first);
        load_fma_tile<T, W, F::kOther>(other_second, v, first);
      }
      __syncthreads();
      T p[F::kScores], ds[F::kScores];
      multiply_fma<T, W>(p, own_first + row * F::kPitch, other_first, in.width);
      T slope[F::kScores];
#pragma unroll
      for (int i = 0; i < F::kScores; ++i) slope[i] = 1;
      if (in.cap > 0) {
#pragma unroll
        for (int i = 0; i < F::kScores; ++i) {
          const T tangent = hyperbolic_tangent<T>(p[i] * in.inverse_cap);
          p[i] = in.cap * tangent;
          slope[i] = 1 - tangent * tangent;
        }
      }
      multiply_fma<T, W>(ds, own_second + row * F::kPitch, other_second, in.width);
#pragma unroll
      for (int i = 0; i < F::kScores; ++i) {
        const int at = lane + F::kRowThreads * i;
        const QueryOf<In> query = kOfKeys ? readers[at] : mine;
        const int key = kOfKeys ? first_own + row : first + at;
        const int asks = kOfKeys ? first + at : first_own + row;
        const bool seen = key <= query.last(asks) && key >= query.start;
        const T factor = in.words && seen
                             ? in.factor(batch, kOfKeys ? kv_head * group + member : y, asks, key)
                             : T(1);
        p[i] = seen ? std::exp(p[i] * scale - query.lse) : T(0);
        ds[i] = seen ? p[i] * (ds[i] * factor - query.delta) * slope[i] : T(0);
        p[i] *= factor;
      }
      mix_fma<T, W>(first_sum, ds, weights, other_first);
      if constexpr (kOfKeys) mix_fma<T, W>(second_sum, p, weights, other_second);
      __syncthreads();
    }
  }
  if constexpr (kOfKeys) {
    store_fma<T, W>(in.key_gradient(gradient, batch, kv_head), first_sum, first_own + row, scale);
    store_fma<T, W>(in.value_gradient(gradient, batch, kv_head), second_sum, first_own + row, T(1));
  } else {
    store_fma<T, W>(in.query_gradient(gradient, batch, y), first_sum, first_own + row, scale);
  }
}

template <class In, int W, bool kOfKeys>
void launch_walk(Stream& stream, int batch, const In& in, const GradientOf<In>& gradient) {
  using T = typename In::Element;
  using F = FmaTile<T, W>;
  const int own_rows = kOfKeys ? in.key_count() : in.seq;
  const dim3 grid(extent(parts(own_rows, F::kOwn)), extent(kOfKeys ? in.kv_heads : in.heads),
                  extent(batch));
  const std::size_t values = 2 * (F::kOwnSize + F::kOtherSize) + F::kOwn * F::kOther;
  const std::size_t bytes = sizeof(T) * values + (kOfKeys ? sizeof(QueryOf<In>) * F::kOther : 0);
  launch(attention_backward_fma<In, W, kOfKeys>, grid, F::kThreads, bytes, stream, in, gradient);
}

template <class In>
void launch_fma(Stream& stream, int batch, const In& in, const GradientOf<In>& gradient) {
  with_padded_width(in.width, [&]<int W>() {
    if (gradient.wants_keys()) launch_walk<In, W, true>(stream, batch, in, gradient);
    if (gradient.wants_queries()) launch_walk<In, W, false>(stream, batch, in, gradient);
  });
}

}  // namespace

void launch_attention_backward(Stream& stream, int batch, const HeadsWithDropout<float>& in,
                               const AttentionGradient<float, float>& gradient) {
  launch_fma(stream, batch, in, gradient);
}
void launch_attention_backward(Stream& stream, int batch, const HeadsWithDropout<double>& in,
                               const AttentionGradient<double, double>& gradient) {
  launch_fma(stream, batch, in, gradient);
}
void launch_attention_backward(Stream& stream, int batch, const PartHeads<float>& in,
                               const PartGradient<float, float>& gradient) {
  launch_fma(stream, batch, in, gradient);
}
void launch_attention_backward(Stream& stream, int batch, const PartHeads<double>& in,
                               const PartGradient<double, double>& gradient) {
  launch_fma(stream, batch, in, gradient);
}

}  // namespace trireme::ops::cuda
