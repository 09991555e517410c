#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace trireme::data {

// Selects the source of every sample as a pure function of the sample's number: for every n, the
// first n samples contain n * share(i) samples of source i, rounded down or up.
//
// Shares are integer multiples of 1 / Q, where Q is the period. Q is the smallest for which they
// match the weights exactly, up to 2^16; weights without such a Q (1 : pi) are rounded to multiples
// of 2^-20, with at least one sample per source. Within the period the j-th sample of source i must
// be in [floor(j / share), ceil((j + 1) / share)), which is equivalent to rounding down or up, and
// slots are assigned earliest deadline first: since the shares add up to one, this meets every
// deadline (Baruah et al., "Proportionate progress", 1996). The period is stored as a table, 2
// bytes per sample.
class Blend {
 public:
  // Throws ConfigError unless all weights are positive and finite.
  explicit Blend(std::span<const double> weights);

  struct Pick {
    std::size_t source;
    std::uint64_t index;  // number of the sample within the source
  };
  Pick operator()(std::uint64_t sample) const;

  // Number of samples of each source among the samples [0, sample).
  std::vector<std::uint64_t> counts(std::uint64_t sample) const;

  double share(std::size_t source) const;
  std::uint64_t period() const { return order_.size(); }

 private:
  void choose_shares(std::span<const double> weights);
  void arrange();
  std::uint64_t count_within(std::size_t source, std::uint64_t slot) const;

  std::vector<std::uint32_t> shares_;  // [sources], samples per period
  std::vector<std::uint16_t> order_;   // [period] source of each slot
  std::vector<std::uint32_t> passed_;  // [period / stride, sources] counts before each stride
  std::uint64_t stride_ = 0;
};

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
