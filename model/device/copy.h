#pragma once
#include <cstddef>

#include "model/device/stream.h"

namespace trireme {

// Enqueues a copy between any two of host memory and the memory of the stream's device. Both
// buffers must stay valid until the stream has executed it; on the CPU it executes immediately.
// Host memory that is not Memory::pinned is copied more slowly, and the call may block.
void copy_bytes(Stream& stream, std::byte* to, const std::byte* from, std::size_t bytes);
// Enqueues a memset of memory of the stream's device.
void fill_bytes(Stream& stream, std::byte* to, unsigned char value, std::size_t bytes);

}  // namespace trireme
