#include "parallel/data/grad_norm.h"

#include "model/ops/elementwise.h"
#include "model/ops/optimizer.h"

namespace trireme {

GradNorm::GradNorm(const ParamStore& held, const NormChunks& places, const Ranks& ranks,
                   Arena& workspace)
    : ranks_(ranks.model) {
  const Weight* experts = nullptr;
  NormChunks::Place of_experts;  // of the first of them
  for (const ParamShard& shard : held.shards()) {
    const Param& param = *shard.param;
    const bool is_dense = param.spec.group == ParamGroup::kDense;
    if (!param.is_primary_replica() || (is_dense && !ranks.is_primary_of_dense)) continue;
    if (!is_dense && shard.weight != experts) {
      experts = shard.weight;
      of_experts = places.of(experts->parts.front());
    }
    const NormChunks::Place place =
        is_dense ? places.of(param) : NormChunks::of_expert(param, *experts, of_experts);
    const std::int64_t at = shard.first - place.from;
    const std::int64_t first = place.first + at / place.chunk, into = at % place.chunk;
    if (!runs_.empty()) {
      Run& last = runs_.back();
      const std::int64_t end = last.first * last.chunk + last.into + last.grad.count();
      const bool follows = shard.grad.data == last.grad.data + last.grad.bytes() &&
                           last.chunk == place.chunk && end == first * place.chunk + into;
      if (follows) {
        last.grad.shape[0] += shard.grad.count();
        continue;
      }
    }
    runs_.push_back({shard.grad, place.chunk, first, into});
  }
  partials_ = workspace.take({places.total()}, DType::kF64);
}

Tensor GradNorm::squares(Stream& stream) const {
  ops::zero(stream, partials_);
  for (const Run& run : runs_) {
    const std::int64_t chunks = (run.into + run.grad.count() + run.chunk - 1) / run.chunk;
    ops::add_chunk_squares(stream, partials_.slice(run.first, chunks), run.grad, run.into,
                           run.chunk);
  }
  ranks_.all_reduce(stream, partials_, Reduce::kSum);
  return partials_;
}

}  // namespace trireme
