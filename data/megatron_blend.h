#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "data/blend.h"

namespace trireme::data {

// Which dataset every sample comes from in Megatron-LM's BlendedDataset, value for value: always
// from the one that is furthest behind its share, the first of several. Memory: 10 bytes a sample.
class MegatronBlend {
 public:
  // For at least `samples` samples.
  MegatronBlend(std::span<const double> weights, std::uint64_t samples);

  // How many samples Megatron-LM builds of dataset i, a few more than the blend takes.
  std::uint64_t samples_of(std::size_t i) const { return built_[i]; }
  std::uint64_t size() const { return source_.size(); }
  // Sample number `sample` of the blend, and after its end of the blend again from its beginning.
  Blend::Pick operator()(std::uint64_t sample) const;
  std::vector<std::uint64_t> counts(std::uint64_t sample) const;

 private:
  std::vector<std::uint64_t> counts_within(std::uint64_t slot) const;

  std::vector<std::uint64_t> built_;   // [datasets]
  std::vector<std::uint16_t> source_;  // [size]
  std::vector<std::int64_t> index_;    // [size] among the samples of its dataset
  std::vector<std::uint64_t> of_lap_;  // [datasets] in the whole blend
};

}  // namespace trireme::data
