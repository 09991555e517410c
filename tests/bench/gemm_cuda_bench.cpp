// Matrix products of training shapes on the first CUDA device, timed by its own clock.
#include <benchmark/benchmark.h>

#include "model/device/devices.h"
#include "model/device/event.h"
#include "model/ops/gemm.h"
#include "model/tensor/arena.h"

namespace trireme {
namespace {

constexpr Device kCuda{Device::Kind::kCuda, 0};

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
  Event start(kCuda, Event::Use::kTiming), end(kCuda, Event::Use::kTiming);
  ops::gemm(stream, c, x, w, {.transpose_b = true});  // chooses
  for ([[maybe_unused]] auto _ : state) {
    start.record(stream);
    ops::gemm(stream, c, x, w, {.transpose_b = true});
    end.record(stream);
    end.synchronize();
    state.SetIterationTime(end.milliseconds_since(start) * 1e-3);
  }
  state.counters["FLOP/s"] = benchmark::Counter(
      2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k),
      benchmark::Counter::kIsIterationInvariantRate);
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

}  // namespace
}  // namespace trireme

BENCHMARK_MAIN();
