// Every library's matrix products at the shapes of a training step:
//   ninja gemm_bench && tests/bench/gemm_bench
#include <benchmark/benchmark.h>
#include <omp.h>

#include <algorithm>
#include <limits>

#include "model/device/cpu/processor.h"
#include "model/ops/cpu/gemm_engine.h"
#include "tests/model/ops/random_tensor.h"

namespace trireme::ops {
namespace {

using cpu::GemmEngine;
using cpu::GemmLibrary;

struct Linear {
  std::int64_t tokens, in, out;
};
constexpr Linear kLinears[] = {
    {1024, 256, 768}, {1024, 256, 256}, {1024, 256, 1024}, {1024, 1024, 256}, {1024, 256, 512},
    {256, 768, 2304}, {256, 768, 768},  {256, 768, 3072},  {256, 3072, 768},  {256, 768, 50257}};

enum class Which : std::uint8_t { kForward, kInput, kWeight };

cpu::MatMulShape shape_of(const Linear& x, Which which) {
  cpu::MatMulShape shape;
  shape.m = which == Which::kWeight ? x.out : x.tokens;
  shape.n = which == Which::kForward ? x.out : x.in;
  shape.k = which == Which::kForward ? x.in : which == Which::kInput ? x.out : x.tokens;
  shape.transpose_a = which == Which::kWeight;
  shape.transpose_b = which == Which::kForward;
  shape.accumulate = which == Which::kWeight ? Accumulate::kAdd : Accumulate::kReplace;
  shape.lda = shape.transpose_a ? shape.m : shape.k;
  return shape;
}

// FLOP/s of the best run, by the processor time of all threads: what other programs on
// the machine take is left out, but for the threads' waiting for each other.
void product(benchmark::State& state, const cpu::MatMulShape& shape, GemmLibrary library) {
  GemmEngine engine({});
  engine.fix(library);
  OwnedTensor a({shape.m, shape.k}, shape.in), b({shape.k, shape.n}, shape.in);
  OwnedTensor c({shape.m, shape.n}, shape.out);
  a.randomize(1), b.randomize(2), c.fill(0);
  const cpu::MatMul product{shape, a.view().data, b.view().data, nullptr, c.view().data};
  engine.run(product);
  const int threads = omp_get_max_threads();
  double best = std::numeric_limits<double>::infinity();
  for (auto _ : state) {
    const double start = trireme::cpu::processor_seconds(threads);
    engine.run(product);
    best = std::min(best, trireme::cpu::processor_seconds(threads) - start);
  }
  state.counters["FLOP/s"] =
      2.0 * static_cast<double>(shape.m * shape.n * shape.k) * threads / best;
}

void list() {
  for (const Linear& linear : kLinears)
    for (const Which which : {Which::kForward, Which::kInput, Which::kWeight})
      for (const GemmLibrary library : cpu::kGemmLibraries) {
        const cpu::MatMulShape shape = shape_of(linear, which);
        const std::string name = say(cpu::choice_key(shape), "/", cpu::name_of(library));
        benchmark::RegisterBenchmark(name.c_str(), product, shape, library);
      }
}

}  // namespace
}  // namespace trireme::ops

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  trireme::ops::list();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
