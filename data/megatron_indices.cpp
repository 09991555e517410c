#include "data/megatron_indices.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <utility>

#include "model/base/error.h"

namespace trireme::data {
namespace {

// The part of numpy.random.RandomState(seed) that shuffle needs: MT19937, which the C++ library
// seeds identically, and bounded integers by masked rejection.
class NumpyRandom {
 public:
  explicit NumpyRandom(std::uint32_t seed) : twister_(seed) {}

  // Uniform in [0, most].
  std::uint32_t below_or_equal(std::uint32_t most) {
    const std::uint32_t mask = most == 0 ? 0 : UINT32_MAX >> std::countl_zero(most);
    std::uint32_t value = 0;
    do {
      value = static_cast<std::uint32_t>(twister_()) & mask;
    } while (value > most);
    return value;
  }

  // At most 2^32 values.
  template <class T>
  void shuffle(std::span<T> values) {
    for (std::size_t i = values.size(); i-- > 1;) {
      std::swap(values[i], values[below_or_equal(static_cast<std::uint32_t>(i))]);
    }
  }

 private:
  std::mt19937 twister_;
};

// Below this fraction of an epoch, the last epoch is shuffled separately, so that its missing
// samples are not spread over the others.
constexpr double kWholeEnough = 0.80;

}  // namespace

MegatronIndices::MegatronIndices(const MegatronPart& part, std::int64_t seq_len,
                                 std::uint64_t samples, std::uint32_t seed) {
  const auto tokens = static_cast<std::uint64_t>(part.tokens);
  const auto length = static_cast<std::uint64_t>(seq_len);
  require(tokens > length, tokens, " tokens for samples of ", length, " + 1");
  const std::uint64_t epochs =
      std::max<std::uint64_t>((samples * length + 1 + tokens - 1) / tokens, 1);
  const std::uint64_t all = (epochs * tokens - 1) / length;
  const std::uint64_t entries = epochs * part.sizes.size();
  constexpr std::uint64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (all > kMost || entries > kMost) {
    throw ConfigError(say("data.order = \"megatron\": ", all, " samples of ", entries,
                          " documents and epochs; this version counts both up to ", kMost,
                          ": give a smaller data.order_samples, or use data.order = \"trireme\""));
  }
  // Samples that end before the last epoch begins.
  const std::uint64_t sans_last = epochs == 1 ? 0 : ((epochs - 1) * tokens - 1) / length;
  const std::uint64_t of_epoch = (tokens - 1) / length;
  const auto whole_enough =
      static_cast<std::uint64_t>(kWholeEnough * static_cast<double>(of_epoch));
  const bool separate = epochs > 1 && samples - sans_last < whole_enough;

  NumpyRandom random(seed);
  documents_.resize(entries);
  for (std::size_t i = 0; i < entries; ++i) {
    documents_[i] = static_cast<std::int32_t>(i % part.sizes.size());
  }
  const std::span<std::int32_t> order(documents_);
  const std::size_t last = separate ? entries - part.sizes.size() : entries;
  random.shuffle(order.first(last));
  random.shuffle(order.subspan(last));

  places_.resize(all + 1);
  lay_out(part, seq_len);

  shuffle_.resize(all);
  std::iota(shuffle_.begin(), shuffle_.end(), 0u);
  const std::span<std::uint32_t> rows(shuffle_);
  const std::size_t first_rows = separate ? sans_last : all;
  random.shuffle(rows.first(first_rows));
  random.shuffle(rows.subspan(first_rows));
}

// Each sample begins with the last token of the previous one.
void MegatronIndices::lay_out(const MegatronPart& part, std::int64_t seq_len) {
  const auto size_at = [&](std::int32_t at) -> std::int64_t { return part.sizes[documents_[at]]; };
  std::int32_t at = 0;
  std::int64_t offset = 0;
  places_[0] = {0, 0};
  for (std::size_t r = 1; r < places_.size(); ++r) {
    std::int64_t rest = seq_len + 1;
    while (size_at(at) - offset < rest) {
      rest -= size_at(at) - offset;
      ++at;
      offset = 0;
    }
    offset += rest - 1;
    places_[r] = {at, static_cast<std::int32_t>(offset)};
  }
}

}  // namespace trireme::data
