#include "data/window_order.h"

#include <utility>

#include "data/megatron_order.h"
#include "data/shuffle.h"
#include "model/base/philox.h"

namespace trireme::data {

WindowOrder::WindowOrder(std::vector<WindowRow> rows, Mixture mixture, const Options& how)
    : rows_(std::move(rows)),
      mixture_(std::move(mixture)),
      how_(how),
      shuffle_key_(random_key(how.seed, "data/shuffle")) {}

Origin WindowOrder::origin(std::uint64_t sample) const {
  const Blend::Pick pick = mixture_(sample);
  const std::uint64_t count = rows_[pick.source].count;
  Origin origin{.source = pick.source,
                .index = pick.index,
                .epoch = pick.index / count,
                .window = pick.index % count};
  if (how_.shuffle) {
    const auto random = philox(shuffle_key_, origin.epoch, origin.source);
    const Shuffle shuffle(count, random[0] | std::uint64_t{random[1]} << 32);
    origin.window = shuffle(origin.window);
  }
  return origin;
}

std::vector<TokenRun> WindowOrder::runs(const Origin& from) const {
  const std::int64_t begin =
      rows_[from.source].begin + static_cast<std::int64_t>(from.window) * how_.seq_len;
  return {{begin, how_.seq_len + 1}};
}

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
