#include "parallel/data/compression/largest.h"

#include <algorithm>

#include "model/device/cpu/threads.h"

namespace trireme {
namespace {

constexpr std::int64_t kBins = 2048, kPieces = kLargestCounts / kBins;

}  // namespace

template <class T>
Largest find_largest(const T* x, std::int64_t count, std::int64_t wanted,
                     std::span<std::int32_t, kLargestCounts> counts) {
  Largest found{0, wanted};
  // Three radix digits of the 31-bit key: 11, 10 and 10 bits.
  int shift = 31;
  for (const int bits : {11, 10, 10}) {
    const int above = shift;
    shift -= bits;
    std::fill(counts.begin(), counts.end(), 0);
    cpu::parallel_for(kPieces, 1, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t piece = first; piece < last; ++piece) {
        std::int32_t* const bins = counts.data() + piece * kBins;
        for (std::int64_t i = count * piece / kPieces; i < count * (piece + 1) / kPieces; ++i) {
          const std::uint32_t key = magnitude_key(x[i]);
          if (key >> above == found.key) ++bins[key >> shift & ((1u << bits) - 1)];
        }
      }
    });
    std::int64_t bin = (std::int64_t{1} << bits) - 1;
    for (;; --bin) {
      std::int64_t total = 0;
      for (std::int64_t piece = 0; piece < kPieces; ++piece) total += counts[piece * kBins + bin];
      if (found.ties <= total) break;
      found.ties -= total;
    }
    found.key = found.key << bits | static_cast<std::uint32_t>(bin);
  }
  return found;
}

template Largest find_largest(const float*, std::int64_t, std::int64_t,
                              std::span<std::int32_t, kLargestCounts>);
template Largest find_largest(const double*, std::int64_t, std::int64_t,
                              std::span<std::int32_t, kLargestCounts>);

}  // namespace trireme
