#include "model/ops/gemm.h"
#include "tests/bench/cuda_bench.h"

namespace trireme::bench {
namespace {

using ops::Accumulate;

constexpr std::int64_t kTokens = 8192;

// A linear layer of a model, [tokens, in] to [tokens, out].
struct Linear {
  std::string name;
  std::int64_t in, out;
  std::int64_t tokens = kTokens;
};

const std::vector<Linear> kLayers{
    {"124M/qkv", 768, 2304},     {"124M/up", 768, 3072},      {"124M/down", 3072, 768},
    {"1.5B/qkv", 1536, 2048},    {"1.5B/output", 1536, 1536}, {"1.5B/gate_up", 1536, 17920},
    {"1.5B/down", 8960, 1536},   {"3B/qkv", 3072, 5120},      {"3B/gate_up", 3072, 16384},
    {"3B/down", 8192, 3072},     {"8B/qkv", 4096, 6144},      {"8B/output", 4096, 4096},
    {"8B/gate_up", 4096, 28672}, {"8B/down", 14336, 4096}};

// The head's logits: chunks of rows, and a vocabulary that is odd beside the same padded.
std::vector<Linear> heads() {
  std::vector<Linear> all;
  for (const std::int64_t rows : {128, 256, 512, 1024, 2048, 8192}) {
    const std::string chunk = say("head of ", rows);
    all.push_back({"1.5B/" + chunk, 1536, 151936, rows});
    all.push_back({"8B/" + chunk, 4096, 128256, rows});
  }
  for (const std::int64_t rows : {667, 8192}) {
    for (const std::int64_t vocabulary : {50257, 50304}) {
      all.push_back(
          {say("124M/head of ", rows, ", vocabulary ", vocabulary), 768, vocabulary, rows});
    }
  }
  return all;
}

// The layer's products: forward, and the gradients of input and weight.
void add_layer(const Linear& layer, DType dtype) {
  const std::int64_t m = extent(layer.tokens), n = extent(layer.out), k = extent(layer.in);
  const std::string name = say("product/", layer.name, "/", name_of(dtype), "/");
  add(name + "forward", [=](Operands& of) -> std::function<void()> {
    const Tensor y = of.zeros({m, n}, dtype);
    const Tensor x = of.random({m, k}, dtype), w = of.random({n, k}, dtype);
    return [=, &of] { ops::gemm(of.stream, y, x, w, {.transpose_b = true}); };
  });
  if (layer.name.ends_with("down") || layer.name.ends_with("output")) {
    add(name + "forward, adding the residual stream", [=](Operands& of) -> std::function<void()> {
      const Tensor y = of.zeros({m, n}, dtype), residual = of.random({m, n}, dtype);
      const Tensor x = of.random({m, k}, dtype), w = of.random({n, k}, dtype);
      return [=, &of] { ops::gemm(of.stream, y, x, w, {.transpose_b = true, .addend = residual}); };
    });
  }
  add(name + "input", [=](Operands& of) -> std::function<void()> {
    const Tensor dx = of.zeros({m, k}, dtype);
    const Tensor dy = of.random({m, n}, dtype), w = of.random({n, k}, dtype);
    return [=, &of] { ops::gemm(of.stream, dx, dy, w, {}); };
  });
  add(name + "weight", [=](Operands& of) -> std::function<void()> {
    const Tensor dw = of.zeros({n, k}, DType::kF32);
    const Tensor dy = of.random({m, n}, dtype), x = of.random({m, k}, dtype);
    return [=, &of] {
      ops::gemm(of.stream, dw, dy, x, {.transpose_a = true, .accumulate = Accumulate::kAdd});
    };
  });
}

// The forward in float8: the product alone, and with the rounding of both operands.
void add_float8(const Linear& layer) {
  const std::int64_t m = extent(layer.tokens), n = extent(layer.out), k = extent(layer.in);
  for (const bool rounds : {false, true}) {
    add(say("product/", layer.name, "/float8/forward", rounds ? " with rounding" : ""),
        [=](Operands& of) -> std::function<void()> {
          if (of.stream.executes()) ops::require_float8(of.stream.device());
          const Tensor y = of.zeros({m, n}), x = of.random({m, k}), w = of.random({n, k});
          const auto rounded = [&of](Arena& into, const Tensor& operand) {
            return ops::quantize(of.stream, into, operand, Float8Format::kE4M3, false);
          };
          const ops::Float8Matrix a = rounded(of.arena, x), b = rounded(of.arena, w);
          return [=, &of] {
            const Arena::Frame frame(of.scratch);
            ops::gemm_float8(
                of.stream, of.scratch,
                rounds ? ops::Float8Gemm{y, rounded(of.scratch, x), rounded(of.scratch, w)}
                       : ops::Float8Gemm{y, a, b});
          };
        });
  }
}

}  // namespace

void add_products() {
  add_layer({"square", 8192, 8192}, DType::kBf16);
  for (const Linear& layer : kLayers) add_layer(layer, DType::kBf16);
  for (const Linear& head : heads()) add_layer(head, DType::kBf16);
  for (const Linear& layer : kLayers) {
    if (layer.name.starts_with("8B")) add_float8(layer);
    if (layer.name.starts_with("124M")) add_layer(layer, DType::kF32);
  }
}

}  // namespace trireme::bench
