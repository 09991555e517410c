#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "data/blend.h"

namespace trireme::data {

// Selects the dataset of every sample exactly as Megatron-LM's BlendedDataset: always the one
// furthest behind its share, the first of several. Memory: 10 bytes per sample.
class MegatronBlend {
 public:
  // Builds at least `samples` samples.
  MegatronBlend(std::span<const double> weights, std::uint64_t samples);

  // Number of samples that Megatron-LM builds of dataset i, slightly more than the blend uses.
  std::uint64_t samples_of(std::size_t i) const { return built_[i]; }
  std::uint64_t size() const { return source_.size(); }
  // Sample number `sample` of the blend; repeats after the end of the blend.
  Blend::Pick operator()(std::uint64_t sample) const;
  std::vector<std::uint64_t> counts(std::uint64_t sample) const;

 private:
  std::vector<std::uint64_t> counts_within(std::uint64_t slot) const;

  std::vector<std::uint64_t> built_;   // [datasets]
  std::vector<std::uint16_t> source_;  // [size]
  std::vector<std::int64_t> index_;    // [size] sample number within its dataset
  std::vector<std::uint64_t> of_lap_;  // [datasets] number of samples in one pass
};

}  // namespace trireme::data
