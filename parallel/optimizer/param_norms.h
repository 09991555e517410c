#pragma once
#include <map>
#include <span>
#include <string>

#include "parallel/optimizer/windows.h"

namespace trireme {

// Norms of logical parameters and of their update directions over the ranks that hold them: float64
// sums of squares per chunk, exchanged in one message and added in order. With shard boundaries at
// multiples of a chunk from the unit's start, as ParamStore places them, the bits equal those of
// one rank; other boundaries change the last bit or so.
class ParamNorms {
 public:
  explicit ParamNorms(UpdateRanks ranks) : ranks_(ranks) {}

  // Allocates sums and one ratio per parameter with weight decay: only these have layer-wise rates,
  // as in the published implementations.
  void prepare(const ParamStore& params, Arena& workspace);

  // Computes the sums of the shards' masters and gradients. Collective.
  void measure(const UpdateStep& step, std::span<const ParamShard> shards) const;

  // Norms of one parameter with weight decay.
  struct Norms {
    Tensor weight, direction;  // [chunks] float64
    Tensor ratio;              // [1], filled by the caller
  };
  Norms of(const Param& param) const;
  // The measured parameters, in order.
  const std::vector<const Param*>& params() const { return params_; }

 private:
  struct Place {
    std::int64_t first;   // index of its first sum
    std::int64_t chunks;  // chunks of all slices
    std::int64_t own;     // first chunk of this rank's slice
    std::int64_t into;    // offset of the parameter's first element in that chunk
    std::int64_t ratio;
  };
  // Adds the squares of x, a master or gradient of `part`, to the sums.
  void add(Stream& stream, Tensor sums, Tensor x, const ParamShard& part) const;
  const Place& place(const Param& param) const;

  UpdateRanks ranks_;
  std::vector<const Param*> params_;
  std::map<std::string, Place> places_;
  Tensor sums_;  // [2, total chunks]: weights, directions
  Tensor ratios_;
};

}  // namespace trireme
