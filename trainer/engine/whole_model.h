#pragma once
#include <cstdint>
#include <memory>

#include "model/stage/block.h"
#include "model/stage/model_config.h"
#include "parallel/data/norm_chunks.h"

namespace trireme {

// The parameters of a rank that has all layers and experts of the model, laid out without memory.
class WholeModel {
 public:
  // All that they depend on.
  struct Spec {
    ModelConfig model = {};
    std::int64_t max_positions = 0, vocab_tile = 1;
    bool tied_gradient_apart = false;
    int tensor = 0, tensor_ranks = 1;  // Region::slice()
    bool splits_tokens = false;        // Region's
    bool operator==(const Spec&) const = default;
  };
  // `region` is that of `spec`.
  WholeModel(const Spec& spec, Region& region, AttentionCore& attention);

  const ParamStore& params() const { return params_; }
  const NormChunks& chunks() const { return chunks_; }

 private:
  ParamStore params_;
  const NormChunks chunks_;
};

// One that this thread made recently, or a new one: layouts that are planned one after the other
// have it in common.
std::shared_ptr<const WholeModel> whole_model(const WholeModel::Spec& spec, Region& region,
                                              AttentionCore& attention);

}  // namespace trireme
