// Matrix products and attention at the shapes of a training step:
//   ninja ops_bench && tests/bench/ops_bench
#include <benchmark/benchmark.h>

#include <cmath>
#include <numeric>

#include "model/ops/attention.h"
#include "model/ops/gemm.h"
#include "tests/model/ops/random_tensor.h"

namespace trireme::ops {
namespace {

void count_flops(benchmark::State& state, double flops) {
  state.counters["FLOP/s"] =
      benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate);
}

// A linear layer's three products: forward, input's gradient, weight's gradient.
void linear(benchmark::State& state, DType dtype) {
  const std::int64_t tokens = state.range(0), in = state.range(1), out = state.range(2);
  const std::int64_t which = state.range(3);
  OwnedTensor x({tokens, in}, dtype), w({out, in}, dtype), y({tokens, out}, dtype);
  OwnedTensor dw({out, in}, accumulator_of(dtype));
  x.randomize(1), w.randomize(2), y.randomize(3), dw.fill(0);
  Stream stream;
  for (auto _ : state) {
    if (which == 0) gemm(stream, y, x, w, {.transpose_b = true});
    if (which == 1) gemm(stream, x, y, w, {});
    if (which == 2) gemm(stream, dw, y, x, {.transpose_a = true, .accumulate = Accumulate::kAdd});
  }
  count_flops(state, 2.0 * static_cast<double>(tokens * in * out));
}

void linear_shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"tokens", "in", "out", "product"})->UseRealTime();
  const std::int64_t shapes[][3] = {{256, 768, 2304}, {256, 768, 768},   {256, 768, 3072},
                                    {256, 3072, 768}, {256, 768, 50257}, {1024, 256, 768},
                                    {1024, 256, 256}, {1024, 256, 1024}, {1024, 1024, 256},
                                    {1024, 256, 512}, {1024, 384, 2048}};
  for (const auto& [tokens, in, out] : shapes)
    for (const std::int64_t product : {0, 1, 2}) bench->Args({tokens, in, out, product});
}

void attention_step(benchmark::State& state, DType dtype) {
  AttentionShape shape;
  shape.batch = state.range(0), shape.seq = state.range(1);
  shape.heads = {state.range(2), state.range(3), state.range(4)};
  shape.scale = 1 / std::sqrt(static_cast<double>(shape.heads.width));
  const bool backward = state.range(5) != 0;
  shape.window = state.range(6);
  const std::int64_t tokens = shape.batch * shape.seq;
  OwnedTensor qkv({tokens, shape.heads.qkv()}, dtype), dqkv({tokens, shape.heads.qkv()}, dtype);
  OwnedTensor out({tokens, shape.heads.query()}, dtype), dout({tokens, shape.heads.query()}, dtype);
  OwnedTensor lse({tokens, shape.heads.heads}, accumulator_of(dtype));
  OwnedTensor first_seen({tokens}, DType::kI32);
  qkv.randomize(1), dout.randomize(2), first_seen.fill(0);
  Stream stream;
  if (shape.window > 0) window_start(stream, first_seen, first_seen, {}, shape.seq, shape.window);
  Arena scratch(std::size_t{1} << 30);
  attention(stream, scratch, out, lse, qkv, first_seen, shape);
  for (auto _ : state) {
    if (backward)
      attention_backward(stream, scratch, {dqkv, dout, out, qkv, lse, first_seen}, shape);
    else
      attention(stream, scratch, out, lse, qkv, first_seen, shape);
  }
  // As if every key were seen, like a product of whole matrices.
  count_flops(state, (backward ? 8.0 : 4.0) *
                         static_cast<double>(tokens * shape.seq * shape.heads.query()));
}

void attention_shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"batch", "seq", "heads", "kv", "width", "backward", "window"})->UseRealTime();
  const std::int64_t shapes[][6] = {{4, 256, 8, 8, 32, 0},    {4, 64, 12, 12, 64, 0},
                                    {1, 256, 12, 12, 64, 0},  {1, 1024, 12, 12, 64, 0},
                                    {1, 2048, 32, 8, 128, 0}, {1, 512, 2, 1, 64, 0},
                                    {1, 4096, 12, 12, 64, 0}, {1, 4096, 12, 12, 64, 512}};
  for (const auto& [batch, seq, heads, kv, width, window] : shapes)
    for (const std::int64_t backward : {0, 1})
      bench->Args({batch, seq, heads, kv, width, backward, window});
}

BENCHMARK_CAPTURE(linear, float32, DType::kF32)->Apply(linear_shapes);
BENCHMARK_CAPTURE(linear, bfloat16, DType::kBf16)->Apply(linear_shapes);
BENCHMARK_CAPTURE(attention_step, float32, DType::kF32)->Apply(attention_shapes);
BENCHMARK_CAPTURE(attention_step, bfloat16, DType::kBf16)->Apply(attention_shapes);

}  // namespace
}  // namespace trireme::ops

BENCHMARK_MAIN();
