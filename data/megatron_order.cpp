#include "data/megatron_order.h"

#include <limits>
#include <utility>

#include "model/base/error.h"

namespace trireme::data {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();

MegatronPart part_of(const MegatronOrder::Source& source) {
  MegatronPart part;
  part.sizes.reserve(source.last - source.first);
  for (std::int64_t s = source.first; s < source.last; ++s) {
    const std::int64_t size = source.stream->sequence_size(s);
    if (size > kMost) {
      throw DataError(
          say(source.stream->token_file(), ": document ", s, " has ", size,
              " tokens, more than Megatron-LM's order can count: use data.order = \"trireme\""));
    }
    part.sizes.push_back(static_cast<std::int32_t>(size));
    part.tokens += size;
  }
  return part;
}

}  // namespace

MegatronOrder::MegatronOrder(std::vector<Source> sources, const Options& how)
    : sources_(std::move(sources)) {
  if (how.samples > static_cast<std::uint64_t>(kMost)) {
    throw ConfigError(say("data.order = \"megatron\": an order of ", how.samples,
                          " samples; this version counts up to ", kMost,
                          ": give a smaller data.order_samples, or use data.order = \"trireme\""));
  }
  if (sources_.size() > 1) {
    std::vector<double> weights;
    for (const Source& source : sources_) weights.push_back(source.weight);
    blend_.emplace(weights, how.samples);
  }
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    const std::uint64_t samples = blend_ ? blend_->samples_of(i) : how.samples;
    indices_.emplace_back(part_of(sources_[i]), how.seq_len, samples, how.seed);
  }
}

Origin MegatronOrder::origin(std::uint64_t sample) const {
  const Blend::Pick pick = blend_ ? (*blend_)(sample) : Blend::Pick{0, sample};
  const MegatronIndices& indices = indices_[pick.source];
  return {.source = pick.source,
          .index = pick.index,
          .epoch = pick.index / indices.samples(),
          .window = indices.row(pick.index % indices.samples())};
}

std::vector<TokenRun> MegatronOrder::runs(const Origin& from) const {
  const MegatronIndices& indices = indices_[from.source];
  const Source& source = sources_[from.source];
  const MegatronIndices::Place begin = indices.place(from.window);
  const MegatronIndices::Place end = indices.place(from.window + 1);
  std::vector<TokenRun> runs;
  for (std::int32_t at = begin.at; at <= end.at; ++at) {
    const std::int64_t sequence = source.first + indices.documents()[at];
    const std::int64_t first = at == begin.at ? begin.offset : 0;
    const std::int64_t stop =
        at == end.at ? std::int64_t{end.offset} + 1 : source.stream->sequence_size(sequence);
    if (stop > first)
      runs.push_back({source.stream->sequence_begin(sequence) + first, stop - first});
  }
  return runs;
}

std::vector<std::uint64_t> MegatronOrder::consumed(std::uint64_t sample) const {
  if (blend_) return blend_->counts(sample);
  return {sample};
}

}  // namespace trireme::data
