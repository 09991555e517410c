#pragma once
#include <cstddef>

#include "model/device/stream.h"

namespace trireme {

// Queues a copy between any two of the host's memory and the stream's device's. Both must
// stay until the stream has come by; on the CPU it is done at once. Memory of the host that
// is not Memory::pinned is copied too, but more slowly, and the call may wait for it.
void copy_bytes(Stream& stream, std::byte* to, const std::byte* from, std::size_t bytes);
// Queues writing `value` into every byte of memory of the stream's device.
void fill_bytes(Stream& stream, std::byte* to, unsigned char value, std::size_t bytes);

}  // namespace trireme
