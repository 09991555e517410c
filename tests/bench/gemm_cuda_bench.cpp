// Matrix products of training shapes on the first CUDA device, timed by its own clock.
#include <benchmark/benchmark.h>

#include "model/device/devices.h"
#include "model/device/event.h"
#include "model/ops/gemm.h"
#include "model/tensor/arena.h"

namespace trireme {
namespace {

constexpr Device kCuda{Device::Kind::kCuda, 0};

// Queues body() after a first time, in which algorithms are chosen; by the device's clock.
template <class Body>
void time(benchmark::State& state, Stream& stream, const Body& body) {
  Event start(kCuda, Event::Use::kTiming), end(kCuda, Event::Use::kTiming);
  body();
  for ([[maybe_unused]] auto _ : state) {
    start.record(stream);
    body();
    end.record(stream);
    end.synchronize();
    state.SetIterationTime(end.milliseconds_since(start) * 1e-3);
  }
  state.counters["FLOP/s"] = benchmark::Counter(2.0 * static_cast<double>(state.range(0)) *
                                                    static_cast<double>(state.range(1)) *
                                                    static_cast<double>(state.range(2)),
                                                benchmark::Counter::kIsIterationInvariantRate);
}

// c [m, n] = x [m, k] w [n, k]^T, as a linear layer does.
void forward(benchmark::State& state, DType dtype) {
  if (cuda_devices().count == 0) {
    state.SkipWithError(cuda_devices().reason.c_str());
    return;
  }
  const std::int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  const std::size_t bytes = static_cast<std::size_t>(m * k + n * k + m * n) * size_of(dtype);
  Arena arena(bytes + 3 * Arena::kAlignment, kCuda);
  const Tensor x = arena.take({m, k}, dtype), w = arena.take({n, k}, dtype);
  const Tensor c = arena.take({m, n}, dtype);
  Stream stream(kCuda);
  time(state, stream, [&] { ops::gemm(stream, c, x, w, {.transpose_b = true}); });
}

// The same in float8, and with the rounding of both factors each time.
void forward_float8(benchmark::State& state, bool with_rounding) {
  const std::string reason =
      cuda_devices().count == 0 ? cuda_devices().reason : ops::why_no_float8(properties_of(kCuda));
  if (!reason.empty()) {
    state.SkipWithError(reason.c_str());
    return;
  }
  const std::int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  Arena arena(2 * static_cast<std::size_t>(m * k + n * k + m * n) + 3 * Arena::kAlignment, kCuda);
  Arena codes(2 * static_cast<std::size_t>(m * k + n * k) + (1 << 20), kCuda);
  const Tensor x = arena.take({m, k}, DType::kBf16), w = arena.take({n, k}, DType::kBf16);
  const Tensor c = arena.take({m, n}, DType::kBf16);
  Stream stream(kCuda);
  const auto rounded = [&](const Tensor& factor) {
    return ops::quantize(stream, codes, factor, Float8Format::kE4M3, false);
  };
  const ops::Float8Matrix a = rounded(x), b = rounded(w);
  time(state, stream, [&] {
    const Arena::Frame frame(codes);
    ops::gemm_float8(
        stream, codes,
        with_rounding ? ops::Float8Gemm{c, rounded(x), rounded(w)} : ops::Float8Gemm{c, a, b});
  });
}

void shapes(benchmark::internal::Benchmark* bench) {
  bench->UseManualTime()
      ->Unit(benchmark::kMicrosecond)
      ->Args({8192, 768, 768})  // GPT-2 124M
      ->Args({8192, 3072, 768})
      ->Args({8192, 50304, 768})
      ->Args({8192, 4096, 4096})  // Llama 3 8B
      ->Args({8192, 14336, 4096})
      ->Args({8192, 4096, 14336});
}
BENCHMARK_CAPTURE(forward, bfloat16, DType::kBf16)->Apply(shapes);
BENCHMARK_CAPTURE(forward, float32, DType::kF32)->Apply(shapes);
BENCHMARK_CAPTURE(forward_float8, product, false)->Apply(shapes);
BENCHMARK_CAPTURE(forward_float8, with_rounding, true)->Apply(shapes);

}  // namespace
}  // namespace trireme

BENCHMARK_MAIN();
