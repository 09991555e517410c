#include <cmath>

#include "model/ops/attention.h"
#include "tests/bench/cuda_bench.h"

namespace trireme::bench {
namespace {

struct Case {
  std::string name;
  std::int64_t seq;
  ops::Heads heads;
  // Our own kernels, which are the ones for document masks; otherwise cuDNN's, if it has a plan.
  bool own;
  std::int64_t document = 0;  // tokens of each; 0: as long as the sequence
  std::int64_t window = 0;    // 0: none
};

std::function<void()> prepared(Operands& of, const Case& which, bool backward) {
  const std::int64_t seq = extent(which.seq), document = which.document * seq / which.seq;
  ops::AttentionShape shape{.batch = std::max<std::int64_t>(1, extent(8192) / seq),
                            .seq = seq,
                            .heads = which.heads,
                            .scale = 1 / std::sqrt(static_cast<double>(which.heads.width)),
                            .masked = which.own,
                            .window = which.window * seq / which.seq};
  const std::int64_t tokens = shape.batch * seq;
  std::vector<std::int32_t> starts(static_cast<std::size_t>(tokens));
  for (std::int64_t t = 0; t < tokens && document > 0; ++t) {
    starts[static_cast<std::size_t>(t)] = static_cast<std::int32_t>(t % seq / document * document);
  }
  const Tensor start = of.integers(starts);
  if (shape.window > 0) ops::window_start(of.stream, start, start, {}, seq, shape.window);
  const Tensor qkv = of.random({tokens, shape.heads.qkv()});
  const Tensor out = of.zeros({tokens, shape.heads.query()});
  const Tensor lse = of.zeros({tokens, shape.heads.heads}, DType::kF32);
  of.label = ops::attention_kernels(of.stream.device(), shape, DType::kBf16);
  const auto forward = [=, &of] {
    ops::attention(of.stream, of.scratch, out, lse, qkv, start, shape);
  };
  if (!backward) return forward;
  forward();
  const Tensor dqkv = of.zeros(qkv.shape), dout = of.random(out.shape);
  return [=, &of] {
    ops::attention_backward(of.stream, of.scratch, {dqkv, dout, out, qkv, lse, start}, shape);
  };
}

void add_case(const Case& which) {
  add("attention/" + which.name + "/forward",
      [which](Operands& of) { return prepared(of, which, false); });
  add("attention/" + which.name + "/backward",
      [which](Operands& of) { return prepared(of, which, true); });
}

}  // namespace

void add_attention() {
  const ops::Heads large{32, 8, 128}, small{12, 12, 64};
  for (const std::int64_t seq : {1024, 4096, 8192, 16384}) {
    if (extent(seq) < seq && seq != 8192) continue;  // on the emulator all are one
    add_case({say("32 + 8 heads of 128/", seq, "/cuDNN"), seq, large, false});
    add_case({say("32 + 8 heads of 128/", seq, "/own"), seq, large, true});
    add_case({say("32 + 8 heads of 128/", seq, "/own, documents of 1000"), seq, large, true, 1000});
    add_case({say("32 + 8 heads of 128/", seq, "/own, window of 512"), seq, large, true, 0, 512});
  }
  add_case({"12 heads of 64/1024/cuDNN", 1024, small, false});
  add_case({"12 heads of 64/1024/own", 1024, small, true});
}

}  // namespace trireme::bench
