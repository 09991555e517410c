#include "parallel/data/norm_chunks.h"

#include <numeric>

#include "model/ops/optimizer.h"

namespace trireme {

static_assert(ParamStore::kGrain % ops::kNormChunk == 0, "no chunk spans two ranks' shards");

NormChunks::NormChunks(const ParamStore& whole, Slice tensor) : tensor_(tensor) {
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
      total_ += (unit.end - unit.begin) / ops::kNormChunk * tensor_.count;
    }
  }
}

NormChunks::Place NormChunks::of_expert(const Param& param, const Weight& weight,
                                        const Place& front) {
  const std::int64_t index = &param - weight.parts.data();
  return {.chunk = front.chunk,
          .first = front.first + index * (param.box.extent.count() / front.chunk),
          .from = front.from};
}

// Chunks are those of the unit.
void NormChunks::add_dense(const Weight& weight, const ParamStore::Unit& unit) {
  const std::int64_t own = total_ + (unit.end - unit.begin) / ops::kNormChunk * tensor_.index;
  for (const Param& param : weight.parts) {
    places_[param.spec.name] = {
        .chunk = ops::kNormChunk, .first = own, .from = unit.begin - param.offset};
  }
}

// Chunks are those of each parameter, so that they do not depend on which experts a rank has.
void NormChunks::add_experts(const Weight& weight) {
  const std::int64_t size = weight.parts.front().box.extent.count();
  const std::int64_t chunk = std::gcd(size, ops::kNormChunk);
  const std::int64_t parts = std::ssize(weight.parts), each = size / chunk;
  const std::int64_t all = parts * each;
  std::int64_t first = total_ + tensor_.index * all;
  for (const Param& param : weight.parts) {
    require(param.box.extent.count() == size, param.spec.name, " differs in size from ",
            weight.parts.front().spec.name);
    places_[param.spec.name] = {.chunk = chunk, .first = first};
    first += each;
  }
  total_ += all * tensor_.count;
}

}  // namespace trireme
