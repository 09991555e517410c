#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace trireme::data {

// Which source every sample comes from, as a pure function of the sample's number: of
// the first n samples, source i gives n * share(i), rounded down or up, for every n.
//
// Shares are whole numbers of a period of Q samples. Q is the smallest for which they match
// the weights exactly, up to 2^16; weights that no such Q fits (1 : pi) are rounded to
// multiples of 2^-20, and no source gets less than one. Inside the period the j-th
// sample of source i must lie in [floor(j / share), ceil((j + 1) / share)), which is
// what rounding down or up means, and the earliest deadline goes first: since the
// shares add up to one, that meets every deadline (Baruah et al., "Proportionate
// progress", 1996). The period is kept as a table, 2 bytes a sample.
class Blend {
 public:
  // Positive, finite weights; ConfigError otherwise.
  explicit Blend(std::span<const double> weights);

  struct Pick {
    std::size_t source;
    std::uint64_t index;  // among the samples of this source
  };
  Pick operator()(std::uint64_t sample) const;

  // Of the samples [0, sample), how many came from each source.
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

}  // namespace trireme::data
