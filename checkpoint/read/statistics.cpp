#include "checkpoint/read/statistics.h"

#include <algorithm>
#include <cmath>

#include "checkpoint/format/checksums.h"
#include "checkpoint/format/crc32c.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/format/values.h"
#include "checkpoint/read/window.h"
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
    const File& file = files[rectangle.shard];
    const std::uint32_t got = crc_of_range(
        file, {rectangle.offset, rectangle.bytes}, buffer, [&](std::span<const std::byte> bytes) {
          for_each_value(bytes, stored->dtype, [&](double value) { running.add(value); });
        });
    if (got == rectangle.crc32c) continue;
    throw CheckpointError(say(file.path().string(), ": damaged: tensor ", tensor));
  }
  Statistics& found = running.statistics;
  const std::int64_t finite = found.elements - found.not_finite;
  found.deviation = finite ? std::sqrt(running.squares / static_cast<double>(finite)) : 0;
  return found;
}

}  // namespace trireme::checkpoint
