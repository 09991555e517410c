#pragma once
#include <cstddef>

namespace trireme::comm {

// What a group takes for messages on their way: of the host over MPI, and beside that of its GPU
// over NCCL.
inline constexpr std::size_t kHostBufferBytes = std::size_t{1} << 20;
inline constexpr std::size_t kNcclBufferBytes = std::size_t{16} << 20;

}  // namespace trireme::comm
