#pragma once
#include <cstddef>

namespace trireme::comm {

// Communication buffer of one group: host memory over MPI.
inline constexpr std::size_t kHostBufferBytes = std::size_t{1} << 20;

// GPU memory of a set of ranks over NCCL. Ordered sums exchange their contributions through it, in
// pieces that must be large for the links to be busy; otherwise it holds gathered maxima.
constexpr std::size_t nccl_buffer_bytes(bool ordered_sums) {
  return (ordered_sums ? std::size_t{128} : 4) << 20;
}

}  // namespace trireme::comm
