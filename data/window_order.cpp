#include "data/window_order.h"

#include <utility>

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

}  // namespace trireme::data
