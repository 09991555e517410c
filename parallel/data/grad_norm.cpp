#include "parallel/data/grad_norm.h"

#include <map>
#include <string>

#include "model/ops/elementwise.h"
#include "model/ops/optimizer.h"

namespace trireme {
namespace {

static_assert(ParamStore::kGrain % ops::kNormChunk == 0, "no chunk spans two ranks' shards");

}  // namespace

GradNorm::GradNorm(const ParamStore& held, const ParamStore& whole, Slice slice,
                   Communicator& ranks, Arena& workspace)
    : ranks_(ranks) {
  std::map<std::string, std::int64_t> places;  // first chunk of a unit, by parameter name
  std::int64_t total = 0;
  for (const Weight& weight : whole.weights()) {
    const ParamStore::Unit& unit = whole.units()[static_cast<std::size_t>(weight.unit)];
    for (const Param& param : weight.parts) {
      places.emplace(param.spec.name, unit.begin / ops::kNormChunk * slice.count +
                                          (unit.end - unit.begin) / ops::kNormChunk * slice.index);
    }
    total = std::max(total, unit.end / ops::kNormChunk * slice.count);
  }
  for (const ParamShard& shard : held.shards()) {
    if (!shard.param->is_primary_replica()) continue;
    const std::int64_t first = places.at(shard.param->spec.name) + shard.in_unit / ops::kNormChunk;
    const std::int64_t into = shard.in_unit % ops::kNormChunk;
    if (!runs_.empty()) {
      Run& last = runs_.back();
      const std::int64_t end = last.first * ops::kNormChunk + last.into + last.grad.count();
      const bool follows = shard.grad.data == last.grad.data + last.grad.bytes() &&
                           end == first * ops::kNormChunk + into;
      if (follows) {
        last.grad.shape[0] += shard.grad.count();
        continue;
      }
    }
    runs_.push_back({shard.grad, first, into});
  }
  partials_ = workspace.take({total}, DType::kF64);
}

Tensor GradNorm::squares(Stream& stream) const {
  ops::zero(stream, partials_);
  for (const Run& run : runs_) {
    const std::int64_t chunks =
        (run.into + run.grad.count() + ops::kNormChunk - 1) / ops::kNormChunk;
    ops::add_chunk_squares(stream, partials_.slice(run.first, chunks), run.grad, run.into);
  }
  ranks_.all_reduce(stream, partials_, Reduce::kSum);
  return partials_;
}

}  // namespace trireme
