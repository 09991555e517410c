// Bytes a second of every memory-bound op beside a plain copy, on arrays beyond
// the caches. Bytes are those that must move: each input once, each output once.
//   kernels_bench --benchmark_filter=float32/avx512
#include <benchmark/benchmark.h>

#include <functional>
#include <string>

#include "model/ops/activation.h"
#include "model/ops/cpu/simd/isa.h"
#include "model/ops/cross_entropy.h"
#include "model/ops/elementwise.h"
#include "model/ops/embedding.h"
#include "model/ops/gemm.h"
#include "model/ops/head_norm.h"
#include "model/ops/norm.h"
#include "model/ops/optimizer.h"
#include "model/ops/rope.h"
#include "model/tensor/arena.h"

namespace trireme::ops {
namespace {

constexpr std::int64_t kTokens = 8192, kWidth = 1024, kVocab = 50257, kLogitRows = 256;

// Small numbers of both signs that stay small.
Tensor filled(Arena& arena, Shape shape, DType dtype) {
  const Tensor tensor = arena.take(shape, dtype);
  std::uint32_t state = 1;
  for (std::int64_t i = 0; i < shape.count(); ++i) {
    state = state * 1664525 + 1013904223;
    const float value = static_cast<float>(state >> 8) / (1 << 23) - 1;
    if (dtype == DType::kF32) tensor.as<float>()[i] = value;
    if (dtype == DType::kF64) tensor.as<double>()[i] = static_cast<double>(value);
    if (dtype == DType::kBf16) tensor.as<Bf16>()[i] = Bf16(value);
    if (dtype == DType::kI32) tensor.as<std::int32_t>()[i] = static_cast<std::int32_t>(state >> 20);
  }
  return tensor;
}

struct Bench {
  DType dtype;
  DType sums = accumulator_of(dtype);
  Stream stream{};
  Arena arena{std::size_t{1} << 30};
  Arena scratch{std::size_t{1} << 26};
  std::size_t bytes = 0;

  Tensor of(Shape shape) { return filled(arena, shape, dtype); }
  Tensor sums_of(Shape shape) { return filled(arena, shape, sums); }
  // Counts what must be read or written, and hands it on.
  Tensor moved(Tensor tensor, std::size_t times = 1) {
    bytes += times * tensor.bytes();
    return tensor;
  }
};

using Prepared = std::function<void()>;
struct Kernel {
  const char* name;
  Prepared (*prepare)(Bench&);
};

Prepared prepared_norm(Bench& b, NormKind kind) {
  const Shape shape{kTokens, kWidth};
  const Tensor y = b.moved(b.of(shape)), x = b.moved(b.of(shape));
  const Tensor sum = b.moved(b.of(shape)), residual = b.moved(b.of(shape));
  const Tensor gain = b.of({kWidth}), inverse = b.sums_of({kTokens});
  const Tensor bias = b.of({kWidth}), mean = b.sums_of({kTokens});
  return [=, &b] { norm(b.stream, {kind, y, mean, inverse, sum, x, residual, gain, bias}); };
}

Prepared prepared_norm_backward(Bench& b, NormKind kind) {
  const Shape shape{kTokens, kWidth};
  const Tensor dx = b.moved(b.of(shape)), dy = b.moved(b.of(shape)), x = b.moved(b.of(shape));
  const Tensor also = b.moved(b.of(shape)), gain = b.of({kWidth});
  const Tensor dgain = b.sums_of({kWidth}), inverse = b.sums_of({kTokens});
  const Tensor dbias = b.sums_of({kWidth}), mean = b.sums_of({kTokens});
  return [=, &b] {
    norm_backward(b.stream, b.scratch,
                  {kind, dx, dgain, dbias, dy, x, gain, mean, inverse, also, {}});
  };
}

const Kernel kKernels[] = {
    {"copy",
     [](Bench& b) -> Prepared {
       const Tensor x = b.moved(b.of({kTokens, kWidth})), y = b.moved(b.of({kTokens, kWidth}));
       return [=, &b] { copy(b.stream, y, x); };
     }},
    {"zero",
     [](Bench& b) -> Prepared {
       const Tensor y = b.moved(b.of({kTokens, kWidth}));
       return [=, &b] { zero(b.stream, y); };
     }},
    {"add",
     [](Bench& b) -> Prepared {
       const Tensor x = b.moved(b.of({kTokens, kWidth})), y = b.moved(b.of({kTokens, kWidth}), 2);
       return [=, &b] { add(b.stream, y, y, x); };
     }},
    {"cast to float32",
     [](Bench& b) -> Prepared {
       const Tensor x = b.moved(b.of({kTokens, kWidth}));
       const Tensor y = b.moved(filled(b.arena, {kTokens, kWidth}, DType::kF32));
       return [=, &b] { cast(b.stream, y, x); };
     }},
    {"cast to bfloat16",
     [](Bench& b) -> Prepared {
       const Tensor x = b.moved(b.of({kTokens, kWidth}));
       const Tensor y = b.moved(filled(b.arena, {kTokens, kWidth}, DType::kBf16));
       return [=, &b] { cast(b.stream, y, x); };
     }},
    {"sum",
     [](Bench& b) -> Prepared {
       const Tensor x = b.moved(b.of({kTokens, kWidth}));
       const Tensor total = b.arena.take({1}, DType::kF64);
       return [=, &b] { sum(b.stream, total, x); };
     }},
    {"bias_backward",
     [](Bench& b) -> Prepared {
       const Tensor dy = b.moved(b.of({kTokens, kWidth})), dbias = b.sums_of({kWidth});
       return [=, &b] { bias_backward(b.stream, dbias, dy, Accumulate::kAdd); };
     }},
    {"rms_norm with residual", [](Bench& b) { return prepared_norm(b, NormKind::kRmsNorm); }},
    {"rms_norm_backward", [](Bench& b) { return prepared_norm_backward(b, NormKind::kRmsNorm); }},
    {"layer_norm with residual", [](Bench& b) { return prepared_norm(b, NormKind::kLayerNorm); }},
    {"layer_norm_backward",
     [](Bench& b) { return prepared_norm_backward(b, NormKind::kLayerNorm); }},
    {"head_norm",
     [](Bench& b) -> Prepared {
       const Heads heads{8, 4, 64};
       const Tensor x = b.moved(b.of({kTokens, heads.qkv()}));
       const Tensor y = b.moved(b.of({kTokens, heads.qkv()}));
       const Tensor gain = b.of({64}), inverse = b.sums_of({kTokens, 12});
       return [=, &b] { head_norm(b.stream, {y, inverse, x, gain, gain, heads, 1e-6}); };
     }},
    {"head_norm_backward",
     [](Bench& b) -> Prepared {
       const Heads heads{8, 4, 64};
       const Tensor x = b.moved(b.of({kTokens, heads.qkv()}));
       const Tensor d = b.moved(b.of({kTokens, heads.qkv()}), 2);
       const Tensor gain = b.of({64}), inverse = b.sums_of({kTokens, 12});
       const Tensor dq = b.sums_of({64}), dk = b.sums_of({64});
       return [=, &b] {
         head_norm_backward(b.stream, b.scratch, {d, dq, dk, x, gain, gain, inverse, heads, {}});
       };
     }},
    {"rope",
     [](Bench& b) -> Prepared {
       const Heads heads{8, 4, 64};
       const Tensor qkv = b.of({kTokens, heads.qkv()});
       b.bytes = qkv.bytes() / 16 * 12 * 2;  // values are not touched
       const Tensor table = b.sums_of({4096, 64}),
                    positions = filled(b.arena, {kTokens}, DType::kI32);
       return [=, &b] { rope(b.stream, qkv, positions, table, {.heads = heads}); };
     }},
    {"gelu",
     [](Bench& b) -> Prepared {
       const Tensor x = b.moved(b.of({kTokens, kWidth})), y = b.moved(b.of({kTokens, kWidth}));
       return [=, &b] { activate(b.stream, y, x, Activation::kGeluTanh); };
     }},
    {"gelu_backward",
     [](Bench& b) -> Prepared {
       const Tensor x = b.moved(b.of({kTokens, kWidth})), y = b.moved(b.of({kTokens, kWidth}), 2);
       return [=, &b] { activate_backward(b.stream, y, y, x, Activation::kGeluTanh); };
     }},
    {"swiglu",
     [](Bench& b) -> Prepared {
       const Tensor x = b.moved(b.of({kTokens, 2 * kWidth})), y = b.moved(b.of({kTokens, kWidth}));
       return [=, &b] { gate(b.stream, y, x, Activation::kSilu); };
     }},
    {"swiglu_backward",
     [](Bench& b) -> Prepared {
       const Tensor x = b.moved(b.of({kTokens, 2 * kWidth})), y = b.moved(b.of({kTokens, kWidth}));
       const Tensor dx = b.moved(b.of({kTokens, 2 * kWidth}));
       return [=, &b] { gate_backward(b.stream, dx, y, x, Activation::kSilu); };
     }},
    {"row_max",
     [](Bench& b) -> Prepared {
       const Tensor logits = b.moved(b.of({kLogitRows, kVocab})), top = b.sums_of({kLogitRows});
       return [=, &b] { row_max(b.stream, top, logits); };
     }},
    {"row_exp_sum",
     [](Bench& b) -> Prepared {
       const Tensor logits = b.moved(b.of({kLogitRows, kVocab})), top = b.sums_of({kLogitRows});
       const Tensor total = b.sums_of({kLogitRows}), target = b.sums_of({kLogitRows});
       const Tensor ids = filled(b.arena, {kLogitRows}, DType::kI32);
       return [=, &b] { row_exp_sum(b.stream, total, target, logits, top, ids, 0); };
     }},
    {"cross_entropy_backward",
     [](Bench& b) -> Prepared {
       const Tensor logits = b.moved(b.of({kLogitRows, kVocab}), 2), top = b.sums_of({kLogitRows});
       const Tensor total = b.sums_of({kLogitRows});
       const Tensor ids = filled(b.arena, {kLogitRows}, DType::kI32);
       return [=, &b] { cross_entropy_backward(b.stream, logits, top, total, ids, 0, {}); };
     }},
    {"embedding",
     [](Bench& b) -> Prepared {
       const Tensor y = b.moved(b.of({kTokens, kWidth}), 2), table = b.of({4096, kWidth});
       const Tensor ids = filled(b.arena, {kTokens}, DType::kI32);
       return [=, &b] { embedding(b.stream, y, table, ids, 0, Accumulate::kReplace); };
     }},
    {"embedding_backward",
     [](Bench& b) -> Prepared {
       const Tensor dy = b.moved(b.of({kTokens, kWidth}));
       const Tensor dtable = b.moved(b.sums_of({4096, kWidth}));
       const Tensor ids = filled(b.arena, {kTokens}, DType::kI32);
       return [=, &b] {
         embedding_backward(b.stream, b.scratch, dtable, dy, ids, 0, Accumulate::kReplace);
       };
     }},
    {"add_chunk_squares",
     [](Bench& b) -> Prepared {
       const Tensor x = b.moved(b.of({kTokens, kWidth}));
       const Tensor partials = b.arena.take({kTokens * kWidth / kNormChunk}, DType::kF64);
       return [=, &b] { add_chunk_squares(b.stream, partials, x); };
     }},
    {"adamw",
     [](Bench& b) -> Prepared {
       const bool mixed = b.dtype == DType::kBf16;
       const Shape shape{kTokens * kWidth};
       const Tensor value = b.moved(b.of(shape), mixed ? 1 : 2);
       const Tensor master = mixed ? b.moved(b.sums_of(shape), 2) : value;
       const Tensor m = b.moved(b.sums_of(shape), 2), v = b.moved(b.sums_of(shape), 2);
       const Tensor grad = b.moved(b.sums_of(shape)), scale = b.sums_of({1});
       zero(b.stream, v);
       return [=, &b] { adamw(b.stream, {value, master, grad, {m, v}}, scale, {1e-6}); };
     }},
};

void measure(benchmark::State& state, const Kernel& kernel, DType dtype, simd::Isa isa) {
  simd::select(isa);
  Bench bench{dtype};
  const Prepared run = kernel.prepare(bench);
  run();
  for (auto _ : state) run();
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bench.bytes));
}

void register_all() {
  for (const Kernel& kernel : kKernels) {
    for (const DType dtype : {DType::kF32, DType::kBf16}) {
      for (const simd::Isa isa : {simd::Isa::kBaseline, simd::Isa::kAvx2, simd::Isa::kAvx512}) {
        if (!simd::present(isa)) continue;
        const std::string name =
            std::string(kernel.name) + "/" + name_of(dtype) + "/" + simd::name_of(isa);
        benchmark::RegisterBenchmark(name.c_str(), measure, kernel, dtype, isa)
            ->Unit(benchmark::kMillisecond)
            ->UseRealTime();
      }
    }
  }
}

}  // namespace
}  // namespace trireme::ops

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  trireme::ops::register_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
