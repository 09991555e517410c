#include "parallel/data/grad_norm.h"

#include <numeric>
#include <string_view>
#include <unordered_map>

#include "model/ops/elementwise.h"
#include "model/ops/optimizer.h"

namespace trireme {
namespace {

static_assert(ParamStore::kGrain % ops::kNormChunk == 0, "no chunk spans two ranks' shards");

// Where the partial sums of a parameter's elements are.
struct ChunkPlace {
  std::int64_t chunk = ops::kNormChunk;  // elements
  std::int64_t first = 0;                // index of the chunk with element `from`
  std::int64_t from = 0;                 // offset of the first chunk in the parameter, at most 0
};

class ChunkPlaces {
 public:
  ChunkPlaces(const ParamStore& whole, const GradNorm::Ranks& ranks) : ranks_(ranks) {
    for (std::size_t u = 0; u < whole.units().size(); ++u) {
      const ParamStore::Unit& unit = whole.units()[u];
      if (unit.gradient_only) continue;
      for (const Weight& weight : whole.weights()) {
        if (weight.unit != static_cast<int>(u)) continue;
        if (unit.group == ParamGroup::kExperts) {
          add_experts(weight);
        } else {
          add_dense(weight, unit);
        }
      }
      if (unit.group == ParamGroup::kDense) {
        total_ += (unit.end - unit.begin) / ops::kNormChunk * ranks_.tensor.count;
      }
    }
  }
  const ChunkPlace& of(const Param& param) const { return places_.at(param.spec.name); }
  std::int64_t total() const { return total_; }

 private:
  // Chunks are those of the unit.
  void add_dense(const Weight& weight, const ParamStore::Unit& unit) {
    const std::int64_t own =
        total_ + (unit.end - unit.begin) / ops::kNormChunk * ranks_.tensor.index;
    for (const Param& param : weight.parts) {
      places_[param.spec.name] = {.first = own, .from = unit.begin - param.offset};
    }
  }
  // Chunks are those of each parameter, so that they do not depend on which experts a rank has.
  void add_experts(const Weight& weight) {
    const std::int64_t size = weight.parts.front().box.extent.count();
    const std::int64_t chunk = std::gcd(size, ops::kNormChunk);
    const std::int64_t parts = std::ssize(weight.parts), each = size / chunk;
    const std::int64_t all = parts * each;
    std::int64_t first = total_ + ranks_.tensor.index * all;
    for (const Param& param : weight.parts) {
      require(param.box.extent.count() == size, param.spec.name, " differs in size from ",
              weight.parts.front().spec.name);
      places_[param.spec.name] = {.chunk = chunk, .first = first};
      first += each;
    }
    total_ += all * ranks_.tensor.count;
  }

  const GradNorm::Ranks& ranks_;
  std::unordered_map<std::string_view, ChunkPlace> places_;  // by parameter name
  std::int64_t total_ = 0;
};

}  // namespace

GradNorm::GradNorm(const ParamStore& held, const ParamStore& whole, const Ranks& ranks,
                   Arena& workspace)
    : ranks_(ranks.model) {
  const ChunkPlaces places(whole, ranks);
  for (const ParamShard& shard : held.shards()) {
    const Param& param = *shard.param;
    const bool is_dense = param.spec.group == ParamGroup::kDense;
    if (!param.is_primary_replica() || (is_dense && !ranks.is_primary_of_dense)) continue;
    const ChunkPlace& place = places.of(param);
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
