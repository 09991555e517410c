#pragma once
#include <cstdint>
#include <vector>

#include "data/blend.h"

namespace trireme::data {

// Which source every sample comes from where the blend changes on the way, as a pure function
// of the sample's number. A source goes on with the sample after its last, whatever the blends
// before took from it.
class Mixture {
 public:
  struct Stage {
    std::uint64_t first = 0;           // sample
    std::vector<std::size_t> sources;  // of all of them, those that the blend takes from
    std::vector<double> weights;       // [sources]
  };
  // The first begins with sample 0, each after the one before.
  Mixture(std::size_t sources, const std::vector<Stage>& stages);

  Blend::Pick operator()(std::uint64_t sample) const;
  // Of the samples [0, sample), how many came from each source.
  std::vector<std::uint64_t> counts(std::uint64_t sample) const;

 private:
  struct Part {
    std::uint64_t first;
    std::vector<std::size_t> sources;
    Blend blend;
    std::vector<std::uint64_t> before;  // [all sources], taken by the parts before
  };
  const Part& part_of(std::uint64_t sample) const;
  static std::vector<std::uint64_t> counts(const Part& part, std::uint64_t sample);

  std::vector<Part> parts_;
};

}  // namespace trireme::data
