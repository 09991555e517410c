// The memory-bound kernels at the shapes of model/ops/cuda/KERNELS.md, by the names of its rows.
#include <memory>

#include "model/device/copy.h"
#include "model/device/memory.h"
#include "model/ops/activation.h"
#include "model/ops/adamw_rounded.h"
#include "model/ops/attention.h"
#include "model/ops/attention_sink.h"
#include "model/ops/average.h"
#include "model/ops/cross_entropy.h"
#include "model/ops/direction.h"
#include "model/ops/draw.h"
#include "model/ops/dropout.h"
#include "model/ops/elementwise.h"
#include "model/ops/embedding.h"
#include "model/ops/float8.h"
#include "model/ops/gemm.h"
#include "model/ops/head_norm.h"
#include "model/ops/momentum.h"
#include "model/ops/norm.h"
#include "model/ops/norm_ratio.h"
#include "model/ops/optimizer.h"
#include "model/ops/projection_norm.h"
#include "model/ops/rope.h"
#include "model/ops/strided_copy.h"
#include "tests/bench/cuda_bench.h"

namespace trireme::bench {
namespace {

using Work = std::function<void()>;
using ops::Accumulate;
using ops::Heads;

constexpr DType kF32 = DType::kF32, kF64 = DType::kF64;
const Heads kHeads{32, 8, 128};

std::int64_t tokens() {
  return extent(8192);
}
std::int64_t width() {
  return extent(4096);
}
std::int64_t weights() {
  return extent(100'000'000);
}

Shape activations() {
  return {tokens(), width()};
}

// For an op that collects them if `measures`, and for one that is given them.
Tensor taken_magnitudes(Operands& of, bool measures) {
  return measures ? of.zeros({ops::kMagnitudes}, DType::kI32) : Tensor{};
}
Tensor given_magnitudes(Operands& of) {
  return of.integers(std::vector<std::int32_t>(ops::kMagnitudes, 0x3f80));  // bits of one
}

Work norm(Operands& of, NormKind kind, bool residual, bool measures = false) {
  const auto rows = [&] { return of.zeros({tokens()}, kF32); };
  const auto whole = [&] { return residual ? of.random(activations()) : Tensor{}; };
  const ops::Norm op{.kind = kind,
                     .y = of.zeros(activations()),
                     .mean = rows(),
                     .inverse = rows(),
                     .sum = whole(),
                     .x = of.random(activations()),
                     .residual = whole(),
                     .gain = of.random({width()}),
                     .bias = of.random({width()}),
                     .magnitudes = taken_magnitudes(of, measures)};
  return [=, &of] { ops::norm(of.stream, op); };
}

Work norm_recompute(Operands& of) {
  const ops::Norm op{.kind = NormKind::kRmsNorm,
                     .y = of.zeros(activations()),
                     .inverse = of.random({tokens()}, kF32),
                     .x = of.random(activations()),
                     .gain = of.random({width()})};
  return [=, &of] { ops::norm_recompute(of.stream, op); };
}

Work norm_backward(Operands& of, NormKind kind) {
  const ops::NormBackward op{.kind = kind,
                             .dx = of.zeros(activations()),
                             .dgain = of.zeros({width()}, kF32),
                             .dbias = of.zeros({width()}, kF32),
                             .dy = of.random(activations()),
                             .x = of.random(activations()),
                             .gain = of.random({width()}),
                             .mean = of.random({tokens()}, kF32),
                             .inverse = of.random({tokens()}, kF32),
                             .dresidual = of.random(activations())};
  return [=, &of] { ops::norm_backward(of.stream, of.scratch, op); };
}

void add_norms() {
  add("stream/rms_norm", [](Operands& of) { return norm(of, NormKind::kRmsNorm, false); });
  add("stream/rms_norm, with magnitudes",
      [](Operands& of) { return norm(of, NormKind::kRmsNorm, false, true); });
  add("stream/layer_norm", [](Operands& of) { return norm(of, NormKind::kLayerNorm, false); });
  add("stream/rms_norm, fused residual",
      [](Operands& of) { return norm(of, NormKind::kRmsNorm, true); });
  add("stream/layer_norm, fused residual",
      [](Operands& of) { return norm(of, NormKind::kLayerNorm, true); });
  add("stream/norm_recompute", norm_recompute);
  add("stream/rms_norm_backward, with dresidual",
      [](Operands& of) { return norm_backward(of, NormKind::kRmsNorm); });
  add("stream/layer_norm_backward, with dresidual",
      [](Operands& of) { return norm_backward(of, NormKind::kLayerNorm); });
}

void add_elementwise() {
  add("stream/add", [](Operands& of) -> Work {
    const Tensor y = of.zeros(activations()), a = of.random(activations());
    const Tensor b = of.random(activations());
    return [=, &of] { ops::add(of.stream, y, a, b); };
  });
  add("stream/scale", [](Operands& of) -> Work {
    const Tensor y = of.zeros(activations()), x = of.random(activations());
    return [=, &of] { ops::scale(of.stream, y, x, 0.5); };
  });
  add("stream/dropout", [](Operands& of) -> Work {
    const Tensor x = of.random(activations()), y = of.random(activations());
    const ops::Dropout how{.rate = 0.1, .key = 1, .words = of.ids(tokens(), tokens())};
    return [=, &of] { ops::dropout(of.stream, y, x, how); };
  });
  add("stream/cast to float", [](Operands& of) -> Work {
    const Tensor to = of.zeros(activations(), kF32), from = of.random(activations());
    return [=, &of] { ops::cast(of.stream, to, from); };
  });
  add("stream/sum", [](Operands& of) -> Work {
    const Tensor total = of.zeros({1}, kF64), x = of.random({tokens()}, kF32);
    return [=, &of] { ops::sum(of.stream, total, x); };
  });
  add("stream/column_sums (bias)", [](Operands& of) -> Work {
    const Tensor dbias = of.zeros({width()}, kF32), dy = of.random(activations());
    return [=, &of] { ops::bias_backward(of.stream, dbias, dy, Accumulate::kReplace); };
  });
  add("stream/gelu", [](Operands& of) -> Work {
    const Shape shape{tokens(), extent(16384)};
    const Tensor y = of.zeros(shape), x = of.random(shape);
    return [=, &of] { ops::activate(of.stream, y, x, Activation::kGeluTanh); };
  });
  add("stream/gelu_backward", [](Operands& of) -> Work {
    const Shape shape{tokens(), extent(16384)};
    const Tensor dx = of.zeros(shape), dy = of.random(shape), x = of.random(shape);
    return [=, &of] { ops::activate_backward(of.stream, dx, dy, x, Activation::kGeluTanh); };
  });
  for (const bool measures : {false, true}) {
    const char* const with = measures ? ", with magnitudes" : "";
    add(say("stream/swiglu", with), [=](Operands& of) -> Work {
      const std::int64_t inner = extent(14336);
      const Tensor y = of.zeros({tokens(), inner}), x = of.random({tokens(), 2 * inner});
      const Tensor largest = taken_magnitudes(of, measures);
      return [=, &of] { ops::gate(of.stream, y, x, Activation::kSilu, 0, largest); };
    });
    add(say("stream/swiglu_backward", with), [=](Operands& of) -> Work {
      const std::int64_t inner = extent(14336);
      const Tensor dx = of.zeros({tokens(), 2 * inner}), dy = of.random({tokens(), inner});
      const Tensor x = of.random({tokens(), 2 * inner});
      const Tensor largest = taken_magnitudes(of, measures);
      return [=, &of] { ops::gate_backward(of.stream, dx, dy, x, Activation::kSilu, 0, largest); };
    });
  }
  for (const bool transposed : {false, true}) {
    add(transposed ? "stream/quantize (float8), transposed" : "stream/quantize (float8)",
        [=](Operands& of) -> Work {
          const Tensor x = of.random(activations());
          return [=, &of] {
            const Arena::Frame frame(of.scratch);
            ops::quantize(of.stream, of.scratch, x, Float8Format::kE4M3, transposed);
          };
        });
  }
  add("stream/quantize (float8), both", [](Operands& of) -> Work {
    const Tensor x = of.random(activations());
    return [=, &of] {
      const Arena::Frame frame(of.scratch);
      const auto transposed =
          ops::Float8Matrix::take(of.scratch, Float8Format::kE5M2, width(), tokens());
      ops::quantize_both(of.stream, of.scratch, transposed, x);
    };
  });
  add("stream/quantize (float8), known magnitude", [](Operands& of) -> Work {
    const Tensor x = of.random(activations()), magnitudes = given_magnitudes(of);
    return [=, &of] {
      const Arena::Frame frame(of.scratch);
      ops::quantize(of.stream, of.scratch, x, Float8Format::kE4M3, false, {}, magnitudes);
    };
  });
  add("stream/quantize (float8), both, known magnitude", [](Operands& of) -> Work {
    const Tensor x = of.random(activations()), magnitudes = given_magnitudes(of);
    return [=, &of] {
      const Arena::Frame frame(of.scratch);
      const auto transposed =
          ops::Float8Matrix::take(of.scratch, Float8Format::kE5M2, width(), tokens());
      ops::quantize_both(of.stream, of.scratch, transposed, x, magnitudes);
    };
  });
  add("stream/quantize (float8), transposed, known scale", [](Operands& of) -> Work {
    const Tensor x = of.random(activations()), scale = of.random({1}, kF32);
    return [=, &of] {
      const Arena::Frame frame(of.scratch);
      ops::quantize_scaled(of.stream, of.scratch, x, Float8Format::kE4M3, true, scale);
    };
  });
}

void add_heads() {
  const Shape qkv{tokens(), kHeads.qkv()}, statistics{tokens(), kHeads.heads + kHeads.kv_heads};
  add("stream/head_norm, in place", [=](Operands& of) -> Work {
    const Tensor x = of.random(qkv), gain = of.random({kHeads.width});
    const Tensor inverse = of.zeros(statistics, kF32);
    return [=, &of] { ops::head_norm(of.stream, {x, inverse, x, gain, gain, kHeads}); };
  });
  add("stream/head_norm_backward", [=](Operands& of) -> Work {
    const Tensor dqkv = of.random(qkv), x = of.random(qkv), gain = of.random({kHeads.width});
    const Tensor inverse = of.random(statistics, kF32);
    const Tensor dq = of.zeros({kHeads.width}, kF32), dk = of.zeros({kHeads.width}, kF32);
    return [=, &of] {
      ops::head_norm_backward(of.stream, of.scratch,
                              {dqkv, dq, dk, x, gain, gain, inverse, kHeads});
    };
  });
  const std::int64_t query_width = kHeads.heads * kHeads.width;
  const std::int64_t key_width = kHeads.kv_heads * kHeads.width;
  add("stream/projection_norm, in place", [=](Operands& of) -> Work {
    const Tensor x = of.random(qkv), squares = of.zeros({tokens(), 2}, kF32);
    const ops::ProjectionNorm op{
        x,      x,           squares,  of.random({query_width}), of.random({key_width}),
        kHeads, query_width, key_width};
    return [=, &of] {
      ops::projection_squares(of.stream, squares, x, kHeads, 1);
      ops::projection_norm(of.stream, op);
    };
  });
  add("stream/projection_norm_backward", [=](Operands& of) -> Work {
    const ops::ProjectionNormBackward op{.dqkv = of.random(qkv),
                                         .dquery_gain = of.zeros({query_width}, kF32),
                                         .dkey_gain = of.zeros({key_width}, kF32),
                                         .x = of.random(qkv),
                                         .squares = of.random({tokens(), 2}, kF32),
                                         .dots = of.zeros({tokens(), 2}, kF32),
                                         .query_gain = of.random({query_width}),
                                         .key_gain = of.random({key_width}),
                                         .heads = kHeads,
                                         .query_width = query_width,
                                         .key_width = key_width};
    return [=, &of] {
      ops::projection_dots(of.stream, op);
      ops::projection_norm_backward(of.stream, of.scratch, op);
    };
  });
  add("stream/rope", [=](Operands& of) -> Work {
    const Tensor x = of.random(qkv), table = of.random({tokens(), kHeads.width}, kF32);
    const Tensor positions = of.ids(tokens(), tokens());
    return [=, &of] { ops::rope(of.stream, x, positions, table, {.heads = kHeads}); };
  });
  const Shape queries{tokens(), kHeads.query()}, sums{tokens(), kHeads.heads};
  add("stream/attention_sink", [=](Operands& of) -> Work {
    const Tensor out = of.random(queries), lse = of.random(sums, kF32);
    const Tensor sinks = of.random({kHeads.heads});
    return [=, &of] { ops::attention_sink(of.stream, out, lse, sinks, kHeads); };
  });
  add("stream/attention_sink_backward", [=](Operands& of) -> Work {
    const ops::AttentionSinkBackward op{.dsinks = of.zeros({kHeads.heads}, kF32),
                                        .dout = of.random(queries),
                                        .out = of.random(queries),
                                        .lse = of.random(sums, kF32),
                                        .sinks = of.random({kHeads.heads}),
                                        .heads = kHeads};
    return [=, &of] { ops::attention_sink_backward(of.stream, of.scratch, op); };
  });
  add("stream/window_start", [](Operands& of) -> Work {
    const Tensor start = of.zeros({tokens()}, DType::kI32),
                 seen = of.zeros({tokens()}, DType::kI32);
    return [=, &of] { ops::window_start(of.stream, seen, start, {}, tokens(), 512); };
  });
  add("stream/attention_cached", [](Operands& of) -> Work {
    const Shape cache{extent(32768), kHeads.kv_heads * kHeads.width};
    const Tensor out = of.zeros({1, kHeads.query()}), x = of.random({1, kHeads.qkv()});
    const Tensor keys = of.random(cache), values = of.random(cache);
    return [=, &of] {
      ops::attention_cached(of.stream, of.scratch,
                            {.out = out,
                             .qkv = x,
                             .keys = keys,
                             .values = values,
                             .first = cache[0] - 1,
                             .heads = kHeads,
                             .scale = 0.1});
    };
  });
}

void add_vocabulary() {
  add("stream/embedding", [](Operands& of) -> Work {
    const std::int64_t vocabulary = extent(128256);
    const Tensor y = of.zeros(activations()), table = of.random({vocabulary, width()});
    const Tensor ids = of.ids(tokens(), vocabulary);
    return [=, &of] { ops::embedding(of.stream, y, table, ids, 0, Accumulate::kReplace); };
  });
  for (const Accumulate accumulate : {Accumulate::kReplace, Accumulate::kAdd}) {
    const bool adds = accumulate == Accumulate::kAdd;
    add(adds ? "stream/embedding_backward, adding" : "stream/embedding_backward, replacing",
        [=](Operands& of) -> Work {
          const std::int64_t vocabulary = extent(128256);
          const Tensor dtable = of.zeros({vocabulary, width()}, kF32);
          const Tensor dy = of.random(activations()), ids = of.ids(tokens(), vocabulary);
          return [=, &of] {
            ops::embedding_backward(of.stream, of.scratch, dtable, dy, ids, 0, accumulate);
          };
        });
  }
  const Shape shape{extent(256), extent(131072)}, rows{shape[0]};
  add("stream/transform_logits", [=](Operands& of) -> Work {
    const Tensor logits = of.random(shape);
    return [=, &of] { ops::transform_logits(of.stream, logits, {.soft_cap = 30}); };
  });
  add("stream/row_max", [=](Operands& of) -> Work {
    const Tensor logits = of.random(shape), top = of.zeros(rows, kF32);
    return [=, &of] { ops::row_max(of.stream, top, logits); };
  });
  add("stream/row_exp_sum", [=](Operands& of) -> Work {
    const Tensor logits = of.random(shape), top = of.random(rows, kF32);
    const Tensor total = of.zeros(rows, kF32), target = of.zeros(rows, kF32);
    const Tensor ids = of.ids(rows[0], shape[1]);
    return [=, &of] { ops::row_exp_sum(of.stream, total, target, logits, top, ids, 0); };
  });
  add("stream/row_max_exp_sum", [=](Operands& of) -> Work {
    const Tensor logits = of.random(shape), top = of.zeros(rows, kF32);
    const Tensor total = of.zeros(rows, kF32), target = of.zeros(rows, kF32);
    const Tensor ids = of.ids(rows[0], shape[1]);
    return [=, &of] { ops::row_max_exp_sum(of.stream, top, total, target, logits, ids); };
  });
  add("stream/cross_entropy_backward", [=](Operands& of) -> Work {
    const Tensor logits = of.random(shape), top = of.random(rows, kF32);
    const Tensor total = of.random(rows, kF32), ids = of.ids(rows[0], shape[1]);
    return [=, &of] { ops::cross_entropy_backward(of.stream, logits, top, total, ids, 0, {}); };
  });
}

// Weights with a master, and so many moments.
UpdateTensors update_tensors(Operands& of, std::size_t moments) {
  const Shape shape{weights()};
  UpdateTensors tensors{
      .value = of.zeros(shape), .master = of.random(shape, kF32), .grad = of.random(shape, kF32)};
  for (std::size_t i = 0; i < moments; ++i) tensors.state[i] = of.zeros(shape, kF32);
  return tensors;
}

template <class Update>
void add_update(const std::string& name, std::size_t moments, const Update& update) {
  add("stream/" + name, [=](Operands& of) -> Work {
    const UpdateTensors tensors = update_tensors(of, moments);
    const Tensor scale = of.random({1}, kF32);
    return [=, &of] { update(of.stream, tensors, scale); };
  });
}

void add_updates() {
  add("stream/add_chunk_squares", [](Operands& of) -> Work {
    const Tensor grad = of.random({weights()}, kF32);
    const Tensor partials = of.zeros({ops::norm_chunks(weights())}, kF64);
    return [=, &of] { ops::add_chunk_squares(of.stream, partials, grad); };
  });
  add("stream/clip_scale", [](Operands& of) -> Work {
    const Tensor partials = of.random({ops::norm_chunks(weights())}, kF64);
    const Tensor norm = of.zeros({1}, kF32), scale = of.zeros({1}, kF32);
    return [=, &of] { ops::clip_scale(of.stream, norm, scale, partials, {.max_norm = 1}); };
  });
  using Weights = const UpdateTensors&;
  add_update("adamw, with master", 2, [](Stream& stream, Weights weights, Tensor scale) {
    ops::adamw(stream, weights, scale, {.learning_rate = 1e-6});
  });
  add("stream/adamw_rounded, with master", [](Operands& of) -> Work {
    UpdateTensors tensors = update_tensors(of, 0);
    for (Tensor& moment : tensors.state) moment = of.zeros({weights()});
    const Tensor scale = of.random({1}, kF32);
    const ops::AdamWRounding how{.rounds_value = true,
                                 .where = {.run = weights(), .stride = weights()}};
    return
        [=, &of] { ops::adamw_rounded(of.stream, tensors, scale, {.learning_rate = 1e-6}, how); };
  });
  add_update("sgd_step, with master", 1, [](Stream& stream, Weights weights, Tensor scale) {
    ops::sgd_step(stream, weights, scale, {.learning_rate = 1e-6});
  });
  add_update("lion, with master", 1, [](Stream& stream, Weights weights, Tensor scale) {
    ops::lion(stream, weights, scale, {.learning_rate = 1e-6});
  });
  add_update("adam_direction (LAMB)", 2, [](Stream& stream, Weights weights, Tensor scale) {
    ops::adam_direction(stream, weights, scale, {});
  });
  add_update("momentum_direction (Muon)", 1, [](Stream& stream, Weights weights, Tensor scale) {
    ops::momentum_direction(stream, weights, scale, 0.95, true);
  });
  add_update("apply_direction, with master", 0, [](Stream& stream, Weights weights, Tensor scale) {
    ops::apply_direction(stream, weights, scale, {.rate = 1e-6});
  });
  add("stream/update_average", [](Operands& of) -> Work {
    const Tensor average = of.random({weights()}, kF32), weight = of.random({weights()}, kF32);
    const Tensor scale = of.zeros({1}, kF32);
    return [=, &of] { ops::update_average(of.stream, average, weight, scale, 0.999); };
  });
  const Shape matrix{extent(11008), extent(4096)};
  add("stream/axpby", [=](Operands& of) -> Work {
    const Tensor y = of.random(matrix, kF32), x = of.random(matrix, kF32);
    return [=, &of] { ops::axpby(of.stream, y, x, {.alpha = 0.5, .beta = 0.5}); };
  });
  const ops::Strided columns{.run = matrix[1], .stride = 2 * matrix[1]};
  add("stream/scatter_strided", [=](Operands& of) -> Work {
    const Tensor whole = of.zeros({matrix[0], 2 * matrix[1]}, kF32);
    const Tensor part = of.random(matrix, kF32);
    return [=, &of] { ops::scatter_strided(of.stream, whole, part, columns); };
  });
  add("stream/gather_strided", [=](Operands& of) -> Work {
    const Tensor whole = of.random({matrix[0], 2 * matrix[1]}, kF32);
    const Tensor part = of.zeros(matrix, kF32);
    return [=, &of] { ops::gather_strided(of.stream, part, whole, columns); };
  });
  add("stream/round_stochastically", [](Operands& of) -> Work {
    const Tensor to = of.zeros({weights()}), from = of.random({weights()}, kF32);
    return [=, &of] {
      ops::round_stochastically(of.stream, to, from, {},
                                {.where = {.run = from.count(), .stride = from.count()}});
    };
  });
  add("stream/draw_normal", [](Operands& of) -> Work {
    const Tensor out = of.zeros({weights()}, kF32);
    return [=, &of] {
      ops::draw_normal(of.stream, out, {.where = {.run = out.count(), .stride = out.count()}});
    };
  });
  const Shape squares{extent(10000)};
  add("stream/trust_ratio", [=](Operands& of) -> Work {
    const Tensor ratio = of.zeros({1}, kF32), scale = of.random({1}, kF32);
    const Tensor weight = of.random(squares, kF64), direction = of.random(squares, kF64);
    return [=, &of] { ops::trust_ratio(of.stream, ratio, weight, direction, scale, {}); };
  });
  add("stream/inverse_norm", [=](Operands& of) -> Work {
    const Tensor inverse = of.zeros({1}, kF32), partials = of.random(squares, kF64);
    return [=, &of] { ops::inverse_norm(of.stream, inverse, partials, 1e-6); };
  });
}

}  // namespace

void add_copies() {
  constexpr std::int64_t kBytes = std::int64_t{1} << 28;
  add("copy/within the device", [](Operands& of) -> Work {
    const Shape shape{extent(kBytes)};
    const Tensor to = of.zeros(shape), from = of.random(shape);
    return [=, &of] { ops::copy(of.stream, to, from); };
  });
  for (const bool to_device : {true, false}) {
    add(to_device ? "copy/pinned host to device" : "copy/device to pinned host",
        [=](Operands& of) -> Work {
          const Tensor there = of.zeros({extent(kBytes)});
          if (!of.stream.executes()) return [] {};
          const auto here =
              std::make_shared<Memory>(Memory::pinned(there.bytes(), of.stream.device()));
          of.copied_bytes = static_cast<double>(there.bytes());
          return [=, &of] {
            std::byte* const to = to_device ? there.data : here->data();
            copy_bytes(of.stream, to, to_device ? here->data() : there.data, there.bytes());
          };
        });
  }
}

void add_streams() {
  add_elementwise();
  add_norms();
  add_heads();
  add_vocabulary();
  add_updates();
}

}  // namespace trireme::bench
