#pragma once
#include <algorithm>
#include <optional>

#include "checkpoint/boxes.h"
#include "checkpoint/crc32c.h"

namespace trireme::checkpoint {

// How much of a file is held in memory at a time.
inline constexpr std::size_t kWindow = std::size_t{8} << 20;

struct Digest {
  std::uint32_t crc32c = 0;  // of the rectangle's own bytes, packed
  std::uint32_t share = 0;   // what it adds (by exclusive or) to its tensor's remainder
};

// Reads the packed bytes of `box` once, in order, through read(offset, bytes), which
// returns a span; at most `window` bytes are asked for at a time. `logical` is the
// shape of the tensor the box lies in.
template <class Read>
Digest digest_of(const Box& box, Shape logical, std::size_t element, Read read,
                 std::size_t window = kWindow) {
  std::uint32_t packed = 0;  // remainder of the rectangle so far
  std::uint32_t tensor = 0;  // remainder of the tensor up to `end`, zeros where others hold it
  std::uint64_t end = 0;
  std::optional<Shift> by_run;
  std::optional<Shift> by_row;
  std::uint64_t row = 0;  // the distance by_row stands for
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
    if (at == 0) {  // the first; often the only one
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

// The share of a rectangle whose CRC32C is known, without its bytes; nullopt when it
// is not one run of its tensor.
inline std::optional<std::uint32_t> share_of(const Box& box, Shape logical, std::size_t element,
                                             std::uint32_t crc32c) {
  std::uint64_t end = 0;
  bool one = false;
  for_each_run(box, box, all_of(logical), [&](auto at, auto in_tensor, auto count) {
    one = at == 0 && count == box.extent.count();
    end = static_cast<std::uint64_t>(in_tensor + count) * element;
  });
  if (!one) return std::nullopt;
  const auto bytes = static_cast<std::uint64_t>(box.extent.count()) * element;
  const std::uint32_t remainder = crc_from(crc32c, bytes);  // its own inverse
  return shifted(remainder, static_cast<std::uint64_t>(logical.count()) * element - end);
}

}  // namespace trireme::checkpoint
