#pragma once
#include "parallel/comm/communicator.h"

namespace trireme {

// Bytes that a rank sends in a bandwidth-optimal collective (ring or direct exchange), whatever the
// library does.
inline std::int64_t all_reduce_bytes(const Communicator& group, std::size_t bytes) {
  return 2 * static_cast<std::int64_t>(bytes) * (group.size() - 1) / group.size();
}
inline std::int64_t all_gather_bytes(const Communicator& group, std::size_t part) {
  return static_cast<std::int64_t>(part) * (group.size() - 1);
}
inline std::int64_t all_to_all_bytes(const Communicator& group, std::size_t sent) {
  return static_cast<std::int64_t>(sent) * (group.size() - 1) / group.size();
}

}  // namespace trireme
