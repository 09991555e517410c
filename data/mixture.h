#pragma once
#include <cstdint>
#include <vector>

#include "data/blend.h"

namespace trireme::data {

// Selects the source of every sample, as a pure function of its number, when the blend changes
// during training. A source continues after its last sample, independent of earlier blends.
class Mixture {
 public:
  struct Stage {
    std::uint64_t first = 0;           // first sample
    std::vector<std::size_t> sources;  // indices of the sources it uses
    std::vector<double> weights;       // by entry of `sources`
  };
  // The first stage begins at sample 0; stages are in ascending order.
  Mixture(std::size_t sources, const std::vector<Stage>& stages);

  Blend::Pick operator()(std::uint64_t sample) const;
  // Number of samples of each source among the samples [0, sample).
  std::vector<std::uint64_t> counts(std::uint64_t sample) const;

 private:
  struct Part {
    std::uint64_t first;
    std::vector<std::size_t> sources;
    Blend blend;
    std::vector<std::uint64_t> before;  // [all sources], samples of earlier parts
  };
  const Part& part_of(std::uint64_t sample) const;
  static std::vector<std::uint64_t> counts(const Part& part, std::uint64_t sample);

  std::vector<Part> parts_;
};

}  // namespace trireme::data
