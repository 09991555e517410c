// Mixture of experts: the memory-bound kernels of KERNELS.md by the names of its rows, and the
// experts' matrix products; at the shapes of Qwen3-30B-A3B.
#include "model/ops/expert_rows.h"
#include "model/ops/grouped_bias.h"
#include "model/ops/grouped_gemm.h"
#include "model/ops/routing.h"
#include "tests/bench/cuda_bench.h"

namespace trireme::bench {
namespace {

using ops::Accumulate;
using ops::ExpertRows;
using ops::Routes;
using ops::Routing;
using Prepared = std::function<void()>;

constexpr DType kI32 = DType::kI32, kSum = DType::kF32;
constexpr std::int64_t kTopK = 8;
const Routing kRouting{.top_k = kTopK, .renormalize = true};

// Extents of one micro-batch.
struct Size {
  std::int64_t tokens = extent(8192), hidden = extent(2048), experts = extent(128);
  std::int64_t intermediate = extent(768), rows = tokens * kTopK;
};

// Different experts for each token; expert e is chosen by as many tokens as any other, or by ones
// that grow with e.
Tensor choices(Operands& of, const Size& size, bool even) {
  std::vector<std::int32_t> experts;
  for (std::int64_t t = 0; t < size.tokens; ++t) {
    const std::int64_t first = even ? t * kTopK : size.experts - 1 - (t * t) % size.experts / 2;
    for (std::int64_t k = 0; k < kTopK; ++k) {
      experts.push_back(static_cast<std::int32_t>((first + k) % size.experts));
    }
  }
  return of.integers(experts).reshaped({size.tokens, kTopK});
}

Routes routes(Operands& of, const Size& size) {
  return {.scores = of.random({size.tokens, size.experts}, kSum),
          .weights = of.random({size.tokens, kTopK}, kSum),
          .experts = choices(of, size, true)};
}

ExpertRows unsorted(Operands& of, const Size& size) {
  return {.starts = of.zeros({size.experts + 1}, kI32),
          .pairs = of.zeros({size.rows}, kI32),
          .row_of = of.zeros({size.tokens, kTopK}, kI32)};
}

ExpertRows sorted(Operands& of, const Size& size, bool even) {
  const ExpertRows rows = unsorted(of, size);
  ops::order_by_expert(of.stream, rows, choices(of, size, even));
  return rows;
}

void add_routing() {
  add("stream/route", [](Operands& of) -> Prepared {
    const Size size;
    const Routes to = routes(of, size);
    const Tensor logits = of.random({size.tokens, size.experts}, kSum);
    return [=, &of] { ops::route(of.stream, to, logits, kRouting); };
  });
  add("stream/count_choices", [](Operands& of) -> Prepared {
    const Size size;
    const Tensor counts = of.zeros({1, size.experts}, kSum), experts = choices(of, size, true);
    return [=, &of] { ops::count_choices(of.stream, counts, experts); };
  });
  add("stream/router_losses", [](Operands& of) -> Prepared {
    const Size size;
    const Tensor losses = of.zeros({ops::kRouterSums}, DType::kF64);
    const Tensor counts = of.random({1, size.experts}, kSum);
    const Tensor logits = of.random({size.tokens, size.experts}, kSum);
    const Tensor scores = of.random({size.tokens, size.experts}, kSum);
    return [=, &of] {
      ops::router_losses(of.stream, of.scratch, losses, counts, scores, logits, kRouting);
    };
  });
  add("stream/route_backward", [](Operands& of) -> Prepared {
    const Size size;
    const Routes from = routes(of, size);
    const Tensor dlogits = of.zeros({size.tokens, size.experts});
    const Tensor dweights = of.random({size.tokens, kTopK}, kSum);
    const Tensor logits = of.random({size.tokens, size.experts}, kSum);
    const ops::RouterLosses losses{.counts = of.random({1, size.experts}, kSum), .balance = 1};
    return [=, &of] {
      ops::route_backward(of.stream, dlogits, dweights, logits, from, kRouting, losses);
    };
  });
}

void add_rows() {
  add("stream/order_by_expert", [](Operands& of) -> Prepared {
    const Size size;
    const ExpertRows rows = unsorted(of, size);
    const Tensor experts = choices(of, size, true);
    return [=, &of] { ops::order_by_expert(of.stream, rows, experts); };
  });
  add("stream/gather_tokens", [](Operands& of) -> Prepared {
    const Size size;
    const ExpertRows rows = sorted(of, size, true);
    const Tensor y = of.zeros({size.rows, size.hidden}), x = of.random({size.tokens, size.hidden});
    return [=, &of] { ops::gather_tokens(of.stream, y, x, rows); };
  });
  add("stream/combine_rows", [](Operands& of) -> Prepared {
    const Size size;
    const ExpertRows rows = sorted(of, size, true);
    const Tensor y = of.zeros({size.tokens, size.hidden}), x = of.random({size.rows, size.hidden});
    const Tensor weights = of.random({size.tokens, kTopK}, kSum);
    return [=, &of] { ops::combine_rows(of.stream, y, x, weights, rows); };
  });
  add("stream/weigh_rows_backward", [](Operands& of) -> Prepared {
    const Size size;
    const ExpertRows rows = sorted(of, size, true);
    const Shape shape{size.rows, size.intermediate};
    const Tensor act = of.random(shape), dact = of.random(shape);
    const Tensor dweights = of.zeros({size.tokens, kTopK}, kSum);
    const Tensor weights = of.random({size.tokens, kTopK}, kSum);
    return [=, &of] { ops::weigh_rows_backward(of.stream, dweights, act, dact, weights, rows); };
  });
}

void add_biases() {
  add("stream/grouped_bias", [](Operands& of) -> Prepared {
    const Size size;
    const Tensor starts = sorted(of, size, true).starts, y = of.random({size.rows, size.hidden});
    const Tensor bias = of.random({size.experts, size.hidden});
    return [=, &of] { ops::grouped_bias(of.stream, y, bias, starts); };
  });
  add("stream/grouped_bias_backward", [](Operands& of) -> Prepared {
    const Size size;
    const ExpertRows rows = sorted(of, size, true);
    const Tensor dbias = of.zeros({size.experts, size.hidden}, kSum);
    const Tensor dy = of.random({size.rows, size.hidden});
    const ops::RowWeights weights{of.random({size.tokens, kTopK}, kSum), rows.pairs};
    return [=, &of] {
      ops::grouped_bias_backward(of.stream, dbias, dy, weights, rows.starts, Accumulate::kReplace);
    };
  });
  add("stream/grouped_bias_dots", [](Operands& of) -> Prepared {
    const Size size;
    const ExpertRows rows = sorted(of, size, true);
    const Tensor dweights = of.zeros({size.tokens, kTopK}, kSum);
    const Tensor dy = of.random({size.rows, size.hidden});
    const Tensor bias = of.random({size.experts, size.hidden});
    return [=, &of] {
      ops::grouped_bias_dots(of.stream, dweights, dy, bias, rows.pairs, rows.starts);
    };
  });
}

// The three products of one of an expert's matrices, [rows, in] to [rows, out].
void add_products_of(const std::string& name, std::int64_t in, std::int64_t out, bool even) {
  const std::string prefix =
      say("product/30B-A3B experts", even ? "" : ", uneven", "/", name, "/bfloat16/");
  const auto weight_rows = [=](const Size& size) { return size.experts * extent(out); };
  add(prefix + "forward", [=](Operands& of) -> Prepared {
    const Size size;
    const Tensor starts = sorted(of, size, even).starts, y = of.zeros({size.rows, extent(out)});
    const Tensor x = of.random({size.rows, extent(in)});
    const Tensor w = of.random({weight_rows(size), extent(in)});
    return [=, &of] { ops::grouped_gemm(of.stream, y, x, w, starts, /*transpose_b=*/true); };
  });
  add(prefix + "input", [=](Operands& of) -> Prepared {
    const Size size;
    const Tensor starts = sorted(of, size, even).starts, dx = of.zeros({size.rows, extent(in)});
    const Tensor dy = of.random({size.rows, extent(out)});
    const Tensor w = of.random({weight_rows(size), extent(in)});
    return [=, &of] { ops::grouped_gemm(of.stream, dx, dy, w, starts, /*transpose_b=*/false); };
  });
  add(prefix + "weight", [=](Operands& of) -> Prepared {
    const Size size;
    const Tensor starts = sorted(of, size, even).starts;
    const Tensor dw = of.zeros({weight_rows(size), extent(in)}, kSum);
    const Tensor dy = of.random({size.rows, extent(out)}), x = of.random({size.rows, extent(in)});
    return [=, &of] { ops::grouped_gemm_weight(of.stream, dw, dy, x, starts, Accumulate::kAdd); };
  });
}

}  // namespace

void add_expert_streams() {
  add_routing();
  add_rows();
  add_biases();
}

void add_expert_products() {
  for (const bool even : {true, false}) {
    add_products_of("gate_up", 2048, 2 * 768, even);
    add_products_of("down", 768, 2048, even);
  }
}

}  // namespace trireme::bench
