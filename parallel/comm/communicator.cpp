#include "parallel/comm/communicator.h"

#include <numeric>

#include "model/base/error.h"

namespace trireme {

Tensor RankBlocks::of(int rank, int ranks) const {
  if (counts.empty()) {
    const std::int64_t each = tensor.count() / ranks;
    return tensor.slice(rank * each, each);
  }
  require(static_cast<int>(counts.size()) == ranks, counts.size(), " block sizes for ", ranks,
          " ranks");
  require(starts.empty() || starts.size() == counts.size(), starts.size(), " block offsets for ",
          ranks, " ranks");
  const std::int64_t first =
      starts.empty() ? std::accumulate(counts.begin(), counts.begin() + rank, std::int64_t{0})
                     : starts[static_cast<std::size_t>(rank)];
  return tensor.slice(first, counts[static_cast<std::size_t>(rank)]);
}

std::int64_t RankBlocks::count() const {
  if (counts.empty()) return tensor.count();
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

}  // namespace trireme
