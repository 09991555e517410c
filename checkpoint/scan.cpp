#include "checkpoint/scan.h"

#include <algorithm>
#include <numeric>

#include "checkpoint/crc32c.h"
#include "checkpoint/digest.h"

namespace trireme::checkpoint {
Scan scan_file(const std::filesystem::path& path, std::span<const Range> ranges) {
  const File file = open_direct(path);
  Scan scan{file.size(), 0, std::vector<std::uint32_t>(ranges.size())};
  std::vector<std::size_t> order(ranges.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return ranges[a].offset < ranges[b].offset; });

  const AlignedBuffer buffer = make_aligned_buffer();
  Window window(file, {0, scan.bytes}, buffer);

  std::uint32_t whole = 0;    // remainder of all bytes before `at`
  std::uint32_t segment = 0;  // remainder of the current gap or range
  std::uint64_t segment_bytes = 0;
  std::size_t next = 0;  // index into `order` of the current or next range
  const auto end_segment = [&] {
    whole = shifted(whole, segment_bytes) ^ segment;
    segment = 0;
    segment_bytes = 0;
  };
  std::uint64_t at = 0;
  while (at < scan.bytes) {
    const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(kWindow, scan.bytes - at));
    const std::span<const std::byte> bytes = window.at(at, n);
    for (std::size_t done = 0; done < n;) {
      const std::uint64_t here = at + done;
      std::uint64_t stop = at + n;
      bool ends = false;
      bool inside = false;
      if (next < order.size()) {
        const Range& range = ranges[order[next]];
        inside = here >= range.offset;
        const std::uint64_t border = inside ? range.offset + range.bytes : range.offset;
        if (border <= stop) {
          stop = border;
          ends = true;
        }
      }
      const auto length = static_cast<std::size_t>(stop - here);
      segment = remainder_of(bytes.subspan(done, length), segment);
      segment_bytes += length;
      done += length;
      if (!ends) continue;
      if (inside) scan.ranges[order[next++]] = crc_from(segment, segment_bytes);
      end_segment();
    }
    at += n;
  }
  end_segment();
  scan.crc32c = crc_from(whole, scan.bytes);
  return scan;
}

std::uint32_t crc_of_range(const File& file, Range range, const AlignedBuffer& buffer) {
  Window window(file, range, buffer);
  std::uint32_t remainder = 0;
  for (std::uint64_t done = 0; done < range.bytes;) {
    const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(kWindow, range.bytes - done));
    remainder = remainder_of(window.at(done, n), remainder);
    done += n;
  }
  return crc_from(remainder, range.bytes);
}

}  // namespace trireme::checkpoint
