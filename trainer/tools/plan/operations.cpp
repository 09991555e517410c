#include "trainer/tools/plan/operations.h"

#include <algorithm>

#include "trainer/tools/plan/streams.h"

namespace trireme {
namespace {

using Kind = Operation::Kind;

double to_double(std::int64_t n) {
  return static_cast<double>(n);
}

// Sizes as one rank sees them.
struct RankSizes {
  explicit RankSizes(const Workload& work)
      : tensor(to_double(work.mesh.tensor)),
        element(work.numbers == NumberFormat::kFloat32 ? 4 : 2),
        tokens(to_double(work.micro_batch * work.seq_len) / to_double(work.mesh.context)),
        outside(tokens / (work.sequence ? tensor : 1)),
        hidden(to_double(work.model.hidden_size)),
        query(to_double(work.model.num_attention_heads * work.model.head_dim) / tensor),
        keys(to_double(std::max(work.model.num_key_value_heads, work.mesh.tensor) *
                       work.model.head_dim) /
             tensor),
        gated(work.model.activation == ActivationKind::kSwiGlu),
        inner(to_double(work.model.intermediate_size) / tensor),
        vocab(to_double(work.model.vocab_size) / tensor) {}
  double tensor, element;
  double tokens, outside;  // inside a tensor-parallel region, and outside
  double hidden, query, keys;
  bool gated;
  double inner, vocab;
  double qkv() const { return query + 2 * keys; }
  double up() const { return gated ? 2 * inner : inner; }
};

class Lister {
 public:
  explicit Lister(const Workload& work) : work_(work), n_(work) {}

  OperationLists lists() const {
    return {forward(), recomputed(), backward(), embedding(), embedding_backward(), head()};
  }

 private:
  using List = std::vector<Operation>;
  List before_down() const;
  List forward() const;
  List recomputed() const;
  List backward() const;

  Operation product(const char* name, double rows, double columns, double depth,
                    bool of_weights = false) const {
    // Weight gradients accumulate in float32.
    const double result = of_weights ? 8 : n_.element;
    return {.kind = Kind::kProduct,
            .name = name,
            .numbers = work_.numbers,
            .rows = rows,
            .columns = columns,
            .depth = depth,
            .bytes = (rows + columns) * depth * n_.element,
            .result_bytes = rows * columns * result,
            .of_weights = of_weights};
  }

  Operation stream(const StreamKind& kind, double elements) const {
    return {.kind = Kind::kStream,
            .name = kind.name,
            .numbers = halves_at_least(),
            .bytes = elements * n_.element * (work_.traits.fused ? kind.passes : kind.unfused)};
  }
  // Format of everything but float8 matmul operands.
  NumberFormat halves_at_least() const {
    return work_.numbers == NumberFormat::kFloat8 ? NumberFormat::kHalf : work_.numbers;
  }

  // Communication at the edges of a tensor-parallel region.
  void message(List& list, Collective alone, Collective shared, bool overlaps_next) const {
    if (work_.mesh.tensor == 1) return;
    list.push_back({.kind = Kind::kMessage,
                    .name = "tensor",
                    .bytes = n_.tokens * n_.hidden * n_.element,
                    .collective = work_.sequence ? shared : alone,
                    .overlaps_next = overlaps_next});
  }
  bool hides_all() const { return work_.traits.tensor_overlap == TensorOverlap::kAll; }
  // Whether the backward gathers the input of the region again: the forward saves only this rank's
  // shard, unless recomputation has just gathered it.
  bool recomputes_gather() const {
    const bool is_there = work_.recomputed == Recomputed::kNormsAndActivations ||
                          (work_.recomputed == Recomputed::kAll && !work_.traits.whole_recompute);
    return work_.sequence && !is_there;
  }
  bool hides_backward() const { return work_.traits.tensor_overlap != TensorOverlap::kNone; }

  // The first matmul of a region, after the all-gather of its input.
  void enter_product(List& list, const Operation& op) const {
    if (work_.sequence) {
      message(list, Collective::kAllGather, Collective::kAllGather, hides_all());
    }
    list.push_back(op);
  }
  // The last matmul of a region, before the reduction of its output.
  void product_leave(List& list, const Operation& op) const {
    if (!hides_all()) list.push_back(op);
    message(list, Collective::kAllReduce, Collective::kReduceScatter, hides_all());
    if (hides_all()) list.push_back(op);
  }
  // Backward of a region's first matmul; the reduction of the input gradients overlaps the weight
  // gradients.
  void both_gradients(List& list, const char* name, double columns, double depth) const {
    list.push_back(product(name, n_.tokens, depth, columns));
    if (recomputes_gather()) {
      message(list, Collective::kAllGather, Collective::kAllGather, hides_backward());
    }
    message(list, Collective::kAllReduce, Collective::kReduceScatter, hides_backward());
    list.push_back(product(name, columns, depth, n_.tokens, true));
  }

  void attention(List& list, bool backward) const;
  StreamKind norm_kind() const {
    return work_.model.norm == NormKind::kRmsNorm ? streams::kRmsNorm : streams::kLayerNorm;
  }
  void norm(List& list) const { list.push_back(stream(norm_kind(), n_.outside * n_.hidden)); }
  // Fused residual addition and norm; the sum is saved too.
  void add_and_norm(List& list) const {
    const StreamKind kind{norm_kind().name, 4, 9};
    list.push_back(stream(kind, n_.outside * n_.hidden));
  }
  void norm_backward(List& list) const {
    const bool rms = work_.model.norm == NormKind::kRmsNorm;
    list.push_back(stream(rms ? streams::kRmsNormBackward : streams::kLayerNormBackward,
                          n_.outside * n_.hidden));
  }
  void rope(List& list) const {
    if (work_.model.position != PositionKind::kRotary) return;
    list.push_back(stream(streams::kRope, n_.tokens * (n_.query + n_.keys)));
  }
  void activation(List& list) const {
    list.push_back(stream(n_.gated ? streams::kSwiGlu : streams::kGelu, n_.tokens * n_.inner));
  }
  void activation_backward(List& list) const {
    list.push_back(
        stream(n_.gated ? streams::kSwiGluBackward : streams::kGeluBackward, n_.tokens * n_.inner));
  }
  List embedding() const;
  List embedding_backward() const;
  List head() const;

  const Workload& work_;
  const RankSizes n_;
};

// Causal: a query sees half of the keys on average. Context ranks exchange keys and values while
// they compute.
void Lister::attention(List& list, bool backward) const {
  const double seq = to_double(work_.seq_len);
  const double seen = n_.tokens * seq * n_.query;  // queries x keys x width, of which half is seen
  const double context = to_double(work_.mesh.context);
  if (work_.mesh.context > 1) {
    list.push_back({.kind = Kind::kMessage,
                    .name = "keys and values",
                    .bytes = n_.tokens * context * 2 * n_.keys * n_.element * (backward ? 2 : 1),
                    .collective = Collective::kAllGather,
                    .axis = Axis::kContext,
                    .overlaps_next = true});
  }
  if (work_.traits.flash_attention) {
    list.push_back({.kind = Kind::kAttention,
                    .name = "attention",
                    .numbers = halves_at_least(),
                    .columns = seq,
                    .depth = to_double(work_.model.head_dim),
                    .flops = (backward ? 4 : 2) * seen,
                    .extra_flops = backward ? seen : 0,
                    .bytes = n_.tokens * (backward ? 4 : 2) * (n_.query + n_.keys) * n_.element});
    return;
  }
  const double width = to_double(work_.model.head_dim);
  const double heads = n_.query / width;
  const double batch = to_double(work_.micro_batch);
  const auto scores = [&](const char* name, double columns, double depth) {
    Operation op = product(name, seq, columns, depth);
    op.count = batch * heads;
    op.bytes *= op.count;
    op.result_bytes *= op.count;
    list.push_back(op);
  };
  const double elements = batch * heads * seq * seq;
  if (!backward) {
    scores("scores", seq, width);
    list.push_back(stream({"softmax", 2, 6}, elements));
    list.push_back(stream({"attention dropout", 2.5, 2.5}, elements));
    scores("mix", width, seq);
    return;
  }
  for (const char* name : {"mix", "scores"}) {
    scores(name, name[0] == 'm' ? seq : width, name[0] == 'm' ? width : seq);
    scores(name, width, seq);
    list.push_back(stream({name, name[0] == 'm' ? 2.5 : 3, 5}, elements));
  }
}

Lister::List Lister::before_down() const {
  List list;
  norm(list);
  enter_product(list, product("qkv", n_.tokens, n_.qkv(), n_.hidden));
  rope(list);
  attention(list, false);
  product_leave(list, product("output", n_.tokens, n_.hidden, n_.query));
  add_and_norm(list);
  enter_product(list, product("up", n_.tokens, n_.up(), n_.hidden));
  activation(list);
  return list;
}

Lister::List Lister::forward() const {
  List list = before_down();
  product_leave(list, product("down", n_.tokens, n_.hidden, n_.inner));
  list.push_back(stream(streams::kAdd, n_.outside * n_.hidden));
  return list;
}

Lister::List Lister::recomputed() const {
  List list;
  switch (work_.recomputed) {
    case Recomputed::kNothing:
      return list;
    case Recomputed::kNormsAndActivations:
      for (int region = 0; region < 2; ++region) {
        norm(list);
        if (work_.sequence) message(list, Collective::kAllGather, Collective::kAllGather, false);
      }
      activation(list);
      return list;
    case Recomputed::kAttention:
      attention(list, false);
      return list;
    case Recomputed::kAll:
      // The backward reads nothing computed after the last activation.
      return work_.traits.whole_recompute ? forward() : before_down();
  }
  return list;
}

Lister::List Lister::backward() const {
  List list;
  const auto leave = [&](const char* name, double depth) {
    // The output gradient is gathered by the whole region.
    if (work_.sequence) {
      message(list, Collective::kAllGather, Collective::kAllGather, hides_all());
    }
    list.push_back(product(name, n_.tokens, depth, n_.hidden));
    list.push_back(product(name, n_.hidden, depth, n_.tokens, true));
  };
  leave("down", n_.inner);
  activation_backward(list);
  both_gradients(list, "up", n_.up(), n_.hidden);
  norm_backward(list);
  leave("output", n_.query);
  attention(list, true);
  rope(list);
  both_gradients(list, "qkv", n_.qkv(), n_.hidden);
  norm_backward(list);
  return list;
}

Lister::List Lister::embedding() const {
  List list{stream(streams::kEmbedding, n_.tokens * n_.hidden)};
  message(list, Collective::kAllReduce, Collective::kReduceScatter, false);
  return list;
}

Lister::List Lister::embedding_backward() const {
  List list;
  if (work_.sequence) message(list, Collective::kAllGather, Collective::kAllGather, false);
  list.push_back(stream(streams::kEmbeddingBackward, n_.tokens * n_.hidden));
  return list;
}

// The head never computes in float8.
Lister::List Lister::head() const {
  List list;
  norm(list);
  const auto wide = [](Operation op) {
    if (op.numbers == NumberFormat::kFloat8) op.numbers = NumberFormat::kHalf;
    return op;
  };
  enter_product(list, wide(product("logits", n_.tokens, n_.vocab, n_.hidden)));
  Operation loss = stream(streams::kLoss, n_.tokens * n_.vocab);
  if (!work_.traits.fused_loss) loss.bytes *= 5.5;
  list.push_back(loss);
  list.push_back(wide(product("logits", n_.tokens, n_.hidden, n_.vocab)));
  list.push_back(wide(product("logits", n_.vocab, n_.hidden, n_.tokens, true)));
  message(list, Collective::kAllReduce, Collective::kReduceScatter, false);
  norm_backward(list);
  return list;
}

}  // namespace

OperationLists operations_of(const Workload& work) {
  return Lister(work).lists();
}

double block_parameters(const Workload& work) {
  const RankSizes n(work);
  return n.hidden * (n.qkv() + n.query + n.up() + n.inner) + 2 * n.hidden;
}

double embedding_parameters(const Workload& work) {
  const RankSizes n(work);
  const bool learned = work.model.position == PositionKind::kLearned;
  return n.vocab * n.hidden + (learned ? to_double(work.seq_len) * n.hidden : 0);
}

double head_parameters(const Workload& work) {
  const RankSizes n(work);
  const bool has_own = !work.model.tie_word_embeddings || work.mesh.pipeline > 1;
  return n.hidden + (has_own ? n.vocab * n.hidden : 0);
}

}  // namespace trireme
