#pragma once
#include <cstddef>

namespace trireme::comm {

// Communication buffer of one group: host memory over MPI, plus GPU memory over NCCL.
inline constexpr std::size_t kHostBufferBytes = std::size_t{1} << 20;
inline constexpr std::size_t kNcclBufferBytes = std::size_t{16} << 20;

}  // namespace trireme::comm
