#include "data/orders_of_parts.h"

#include <utility>

#include "data/megatron_order.h"
#include "data/window_order.h"

namespace trireme::data {

std::uint64_t windows_of(const SourcePart& part, const SequenceSpec& sequence) {
  return static_cast<std::uint64_t>((part.tokens() - 1) / sequence.seq_len);
}

std::unique_ptr<SampleOrder> window_order_of(const std::vector<SourcePart>& parts, Mixture mixture,
                                             const SequenceSpec& sequence) {
  std::vector<WindowRow> rows;
  for (const SourcePart& part : parts) rows.push_back({part.begin(), windows_of(part, sequence)});
  return std::make_unique<WindowOrder>(
      std::move(rows), std::move(mixture),
      WindowOrder::Options{
          .seq_len = sequence.seq_len, .seed = sequence.seed, .shuffle = sequence.shuffle});
}

std::unique_ptr<SampleOrder> megatron_order_of(const std::vector<SourcePart>& parts,
                                               const SequenceSpec& sequence) {
  std::vector<MegatronOrder::Source> sources;
  for (const SourcePart& part : parts) {
    sources.push_back({&part.stream(), part.first(), part.last(), part.spec().weight});
  }
  return std::make_unique<MegatronOrder>(
      std::move(sources),
      MegatronOrder::Options{.seq_len = sequence.seq_len,
                             .samples = sequence.megatron_samples.value_or(0),
                             .seed = static_cast<std::uint32_t>(sequence.seed)});
}

}  // namespace trireme::data
