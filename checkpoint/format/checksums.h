#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/format/boxes.h"
#include "checkpoint/format/crc32c.h"
#include "checkpoint/format/manifest.h"

namespace trireme::checkpoint {

// Size of the buffer for reading a file.
inline constexpr std::size_t kWindow = std::size_t{8} << 20;

// A byte range of a file or of a box.
struct Range {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

struct Digest {
  std::uint32_t crc32c = 0;  // of the packed bytes of the box
  std::uint32_t share = 0;   // its contribution (by exclusive or) to the remainder of the tensor
};

// Reads the packed bytes of `box` once, in order, through read(offset, bytes), which returns a span
// of at most `window` bytes. `logical` is the shape of the tensor that contains the box.
template <class Read>
Digest digest_of(const Box& box, Shape logical, std::size_t element, Read read,
                 std::size_t window = kWindow) {
  std::uint32_t packed = 0;  // remainder of the box so far
  std::uint32_t tensor = 0;  // remainder of the tensor up to `end`, with zeros outside the box
  std::uint64_t end = 0;
  std::optional<Shift> by_run;
  std::optional<Shift> by_row;
  std::uint64_t row = 0;  // the distance of by_row
  for_each_run(box, box, all_of(logical), [&](auto at, auto in_tensor, auto count) {
    std::uint32_t run = 0;
    const auto bytes = static_cast<std::uint64_t>(count) * element;
    const auto from = static_cast<std::uint64_t>(at) * element;
    for (std::uint64_t done = 0; done < bytes;) {
      const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(bytes - done, window));
      run = remainder_of(read(from + done, n), run);
      done += n;
    }
    const std::uint64_t to = static_cast<std::uint64_t>(in_tensor) * element + bytes;
    if (at == 0) {  // the first range; often the only one
      packed = tensor = run;
    } else {
      if (!by_run) by_run.emplace(bytes);
      if (!by_row) by_row.emplace(row = to - end);
      packed = (*by_run)(packed) ^ run;
      tensor = (to - end == row ? (*by_row)(tensor) : shifted(tensor, to - end)) ^ run;
    }
    end = to;
  });
  const auto total = static_cast<std::uint64_t>(logical.count()) * element;
  return {crc_from(packed, static_cast<std::uint64_t>(box.extent.count()) * element),
          shifted(tensor, total - end)};
}

// The contribution of a box with known CRC32C, without its bytes; nullopt if the box is not one
// contiguous range of its tensor.
std::optional<std::uint32_t> share_of(const Box& box, Shape logical, std::size_t element,
                                      std::uint32_t crc32c);

// Large boxes have one checksum per block too, so that a reader of part of a box reads only the
// blocks that contain the part. All blocks but the last have the same size, a power of two.
std::uint64_t block_bytes(std::uint64_t bytes);

// Bytes covered by one checksum: a block, or the whole box if it has no block checksums.
std::uint64_t checked_bytes(const Rectangle& stored);

// The blocks of a range, in order; the range itself if it is a single block.
std::vector<Range> blocks_of(Range range);

// The CRC32C of a range of `bytes` from the CRC32Cs of its blocks.
std::uint32_t joined_crc(const std::vector<std::uint32_t>& blocks, std::uint64_t bytes);

// Eight hex digits per block, without separators.
std::string blocks_text(const std::vector<std::uint32_t>& blocks);
// Empty unless `text` has one checksum for each block of `bytes`.
std::vector<std::uint32_t> parse_blocks(std::string_view text, std::uint64_t bytes);

}  // namespace trireme::checkpoint
