#include "parallel/data/grad_norm.h"

#include <map>

#include "model/ops/elementwise.h"
#include "model/ops/optimizer.h"

namespace trireme {
namespace {

std::int64_t chunks_of(std::int64_t elements) {
  return (elements + ops::kNormChunk - 1) / ops::kNormChunk;
}

}  // namespace

GradNorm::GradNorm(const ParamStore& held, const ParamStore& whole, Communicator& model,
                   Arena& workspace)
    : model_(model) {
  std::map<std::string, std::int64_t> places;
  std::int64_t total = 0;
  for (const Weight& weight : whole.weights()) {
    for (const Param& param : weight.parts) {
      const Cut& cut = param.spec.cut;
      const std::int64_t chunks = chunks_of(local_shape(param.spec.shape, cut).count());
      const int slices = cut.dim < 0 ? 1 : cut.slice.count;
      const int slice = cut.dim < 0 ? 0 : cut.slice.index;
      places.emplace(param.spec.name, total + chunks * slice);
      total += chunks * slices;
    }
  }
  for (const Weight& weight : held.weights()) {
    for (const Param& param : weight.parts) {
      if (param.counted()) parts_.push_back({&param, places.at(param.spec.name)});
    }
  }
  partials_ = workspace.take({total}, DType::kF64);
}

Tensor GradNorm::squares(Stream& stream) const {
  ops::zero(stream, partials_);
  for (const Part& part : parts_) {
    const Tensor grad = part.param->grad;
    ops::chunk_squares(stream, partials_.slice(part.first, chunks_of(grad.count())), grad);
  }
  model_.all_reduce(stream, partials_, Reduce::kSum);
  return partials_;
}

}  // namespace trireme
