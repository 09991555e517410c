#include "checkpoint/statistics.h"

#include <algorithm>
#include <cmath>

#include "checkpoint/crc32c.h"
#include "checkpoint/digest.h"
#include "checkpoint/manifest.h"
#include "checkpoint/values.h"
#include "checkpoint/window.h"
#include "model/base/error.h"

namespace trireme::checkpoint {
namespace {

// Welford's running mean and squared distance.
struct Running {
  Statistics statistics;
  double squares = 0;

  void add(double value) {
    ++statistics.elements;
    if (!std::isfinite(value)) {
      ++statistics.not_finite;
      return;
    }
    const std::int64_t count = statistics.elements - statistics.not_finite;
    statistics.least = count == 1 ? value : std::min(statistics.least, value);
    statistics.most = count == 1 ? value : std::max(statistics.most, value);
    if (value == 0) ++statistics.zeros;
    const double before = value - statistics.mean;
    statistics.mean += before / static_cast<double>(count);
    squares += before * (value - statistics.mean);
  }
};

}  // namespace

Statistics statistics_of(const std::filesystem::path& folder, const std::string& tensor) {
  const Manifest manifest = read_manifest(folder);
  const StoredTensor* stored = manifest.find(tensor);
  if (!stored) {
    throw CheckpointError(say(folder.string(), " has no tensor \"", tensor,
                              "\"; `trireme checkpoint show` lists them"));
  }
  ShardFiles files(folder, manifest);
  const AlignedBuffer buffer = make_aligned_buffer();
  Running running;
  for (const Rectangle& rectangle : stored->rectangles) {
    Window window(files[rectangle.shard], {rectangle.offset, rectangle.bytes}, buffer);
    std::uint32_t remainder = 0;
    for (std::uint64_t done = 0; done < rectangle.bytes;) {
      const auto n =
          static_cast<std::size_t>(std::min<std::uint64_t>(kWindow, rectangle.bytes - done));
      const auto bytes = window.at(done, n);
      remainder = remainder_of(bytes, remainder);
      for_each_value(bytes, stored->dtype, [&](double value) { running.add(value); });
      done += n;
    }
    if (crc_from(remainder, rectangle.bytes) != rectangle.crc32c) {
      throw CheckpointError(
          say(files[rectangle.shard].path().string(), ": damaged: tensor ", tensor));
    }
  }
  Statistics& found = running.statistics;
  const std::int64_t finite = found.elements - found.not_finite;
  found.deviation = finite ? std::sqrt(running.squares / static_cast<double>(finite)) : 0;
  return found;
}

}  // namespace trireme::checkpoint
