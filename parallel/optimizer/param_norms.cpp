#include "parallel/optimizer/param_norms.h"

#include "model/ops/elementwise.h"
#include "model/ops/optimizer.h"
#include "parallel/optimizer/strided_of.h"

namespace trireme {
void ParamNorms::prepare(const ParamStore& params, Arena& workspace) {
  std::int64_t chunks = 0;
  for (const Weight& weight : params.weights()) {
    for (const Param& param : weight.parts) {
      if (!param.spec.decay) continue;
      const Cut& cut = param.spec.cut;
      const std::int64_t into =
          (param.offset - params.units()[static_cast<std::size_t>(weight.unit)].begin) %
          ops::kNormChunk;
      const std::int64_t each = ops::norm_chunks(into + local_shape(param.spec.shape, cut).count());
      const Slice slice = cut.dim < 0 ? Slice{} : cut.slice;
      places_.emplace(param.spec.name, Place{.first = chunks,
                                             .chunks = each * slice.count,
                                             .own = chunks + each * slice.index,
                                             .into = into,
                                             .ratio = static_cast<std::int64_t>(params_.size())});
      chunks += each * slice.count;
      params_.push_back(&param);
    }
  }
  sums_ = workspace.take({2, chunks}, DType::kF64);
  ratios_ = workspace.take({static_cast<std::int64_t>(params_.size())}, params.grads().dtype);
}

void ParamNorms::measure(const UpdateStep& step, std::span<const ParamShard> shards) const {
  ops::zero(step.stream, sums_);
  for (const ParamShard& shard : shards) {
    if (!shard.param->spec.decay || !counts_among(ranks_.tensor, *shard.param)) continue;
    // Split at chunk boundaries.
    const std::int64_t into = place(*shard.param).into + shard.first;
    constexpr std::int64_t kWhole = std::int64_t{1} << 40;
    static_assert(kWhole % ops::kNormChunk == 0 && Staging::kPiece % ops::kNormChunk == 0);
    each_part(step, shard, kWhole, into, {.master = true}, {}, [&](const ParamShard& part) {
      add(step.stream, sums_.row_slice(0, 1), part.master, part);
    });
    add(step.stream, sums_.row_slice(1, 1), shard.grad, shard);
  }
  ranks_.shard.all_reduce(step.stream, sums_, Reduce::kSum);
  ranks_.tensor.all_reduce(step.stream, sums_, Reduce::kSum);
}

void ParamNorms::add(Stream& stream, Tensor sums, Tensor x, const ParamShard& part) const {
  const Place& at = place(*part.param);
  const std::int64_t first = at.into + part.first, into = first % ops::kNormChunk;
  ops::add_chunk_squares(
      stream, sums.slice(at.own + first / ops::kNormChunk, ops::norm_chunks(into + x.count())), x,
      into);
}

const ParamNorms::Place& ParamNorms::place(const Param& param) const {
  const auto found = places_.find(param.spec.name);
  require(found != places_.end(), param.spec.name, " is not among the parameters prepared for");
  return found->second;
}

ParamNorms::Norms ParamNorms::of(const Param& param) const {
  const Place& at = place(param);
  const std::int64_t all = sums_.width();
  return {.weight = sums_.slice(at.first, at.chunks),
          .direction = sums_.slice(all + at.first, at.chunks),
          .ratio = ratios_.slice(at.ratio, 1)};
}

}  // namespace trireme
