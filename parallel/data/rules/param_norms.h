#pragma once
#include <map>
#include <span>
#include <string>

#include "parallel/data/rules/windows.h"

namespace trireme {

// The norms of logical parameters and of their directions, found over the ranks that hold
// them: float64 sums of squares over the chunks of its unit that a rectangle lies in, exchanged
// at once and added in order. Shards that meet where ParamStore's do, at multiples of a chunk
// from the unit's start, leave every bit as on one rank; others move the sums by a rounding.
class ParamNorms {
 public:
  explicit ParamNorms(UpdateRanks ranks) : ranks_(ranks) {}

  // Takes the sums, and a ratio for each, of the parameters that decay:
  // layer-wise rates are theirs alone, as in the published implementations.
  void prepare(const ParamStore& params, Arena& workspace);

  // The sums over the ranges' masters and gradients. Collective.
  void measure(Stream& stream, std::span<const UpdateRange> ranges) const;

  // What has been measured of a parameter that decays.
  struct Norms {
    Tensor weight, direction;  // [chunks] float64
    Tensor ratio;              // [1], for the caller to fill
  };
  Norms of(const Param& param) const;
  // The parameters measured, in order.
  const std::vector<const Param*>& params() const { return params_; }

 private:
  struct Place {
    std::int64_t first;   // among the sums
    std::int64_t chunks;  // of all slices
    std::int64_t own;     // the first of this rank's slice
    std::int64_t into;    // elements of that chunk before the parameter's first
    std::int64_t ratio;
  };
  // The squares of x, elements of this part, a master or gradient.
  void add(Stream& stream, Tensor sums, Tensor x, const UpdateRange& part) const;
  const Place& place(const Param& param) const;

  UpdateRanks ranks_;
  std::vector<const Param*> params_;
  std::map<std::string, Place> places_;
  Tensor sums_;  // [2, chunks of all]: of the weights, of the directions
  Tensor ratios_;
};

}  // namespace trireme
