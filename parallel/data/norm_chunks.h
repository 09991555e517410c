#pragma once
#include <cstdint>
#include <string_view>
#include <unordered_map>

#include "model/params/param_store.h"

namespace trireme {

// Where the squared gradients of each parameter are among the partial sums of GradNorm: fixed
// chunks of the units' elements, or of an expert's parameters, in the order in which a single rank
// would declare them.
class NormChunks {
 public:
  struct Place {
    std::int64_t chunk = 0;  // elements
    std::int64_t first = 0;  // index of the chunk with element `from`
    std::int64_t from = 0;   // offset of the first chunk in the parameter, at most 0
  };
  // `whole` are the parameters declared by a rank that has all layers and experts, laid out; it
  // outlives this. `tensor` is this rank's place among those that split each matrix.
  NormChunks(const ParamStore& whole, Slice tensor);

  const Place& of(const Param& param) const { return places_.at(param.spec.name); }
  // The same, of a part of experts' `weight` of which `front` is the place of the first part: those
  // of a rank are consecutive in `whole` too.
  static Place of_expert(const Param& param, const Weight& weight, const Place& front);
  std::int64_t total() const { return total_; }

 private:
  void add_dense(const Weight& weight, const ParamStore::Unit& unit);
  void add_experts(const Weight& weight);

  Slice tensor_;
  std::unordered_map<std::string_view, Place> places_;  // by parameter name
  std::int64_t total_ = 0;
};

}  // namespace trireme
