#include "data/window_order.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "data/megatron_order.h"
#include "model/base/error.h"
#include "model/base/philox.h"

namespace trireme::data {
namespace {

constexpr int kRounds = 8;
constexpr int kFewestBits = 4;  // halves of two bits still mix

std::uint64_t mask(int bits) {
  return (std::uint64_t{1} << bits) - 1;
}

}  // namespace

Shuffle::Shuffle(std::uint64_t n, std::uint64_t key) : n_(n), key_(key) {
  require(n > 0 && n <= std::uint64_t{1} << 63, "a permutation of ", n);
  const int bits = std::max(static_cast<int>(std::bit_width(n - 1)), kFewestBits);
  low_bits_ = bits / 2;
  high_bits_ = bits - low_bits_;
}

std::uint64_t Shuffle::permute(std::uint64_t value) const {
  std::uint64_t low = value & mask(low_bits_);
  std::uint64_t high = value >> low_bits_;
  for (int round = 0; round < kRounds; ++round) {
    // The halves differ in width, so rounds alternate between them instead of swapping.
    std::uint64_t& from = round % 2 == 0 ? low : high;
    std::uint64_t& to = round % 2 == 0 ? high : low;
    const int bits = round % 2 == 0 ? high_bits_ : low_bits_;
    const auto random = philox(key_, from, static_cast<std::uint64_t>(round));
    to ^= (random[0] | std::uint64_t{random[1]} << 32) & mask(bits);
  }
  return high << low_bits_ | low;
}

std::uint64_t Shuffle::operator()(std::uint64_t index) const {
  require(index < n_, "index ", index, " of a permutation of ", n_);
  do {
    index = permute(index);
  } while (index >= n_);
  return index;
}

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
    const auto random = philox(shuffle_key_, origin.epoch, rows_[pick.source].key);
    const Shuffle shuffle(count, random[0] | std::uint64_t{random[1]} << 32);
    origin.window = shuffle(origin.window);
  }
  return origin;
}

std::vector<TokenRun> WindowOrder::runs(const Origin& from) const {
  const WindowRow& row = rows_[from.source];
  return {{row.begin + static_cast<std::int64_t>(from.window) * row.stride, row.seq_len + 1}};
}

WindowRow window_row(const SourcePart& part, std::int64_t seq_len, std::int64_t stride,
                     std::uint64_t key) {
  if (stride == 0) stride = seq_len;
  const std::int64_t count = (part.tokens() - 1 - seq_len + stride) / stride;
  return {part.begin(), static_cast<std::uint64_t>(count), seq_len, stride, key};
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
