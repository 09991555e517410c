#include "model/device/copy.h"

#include <cstring>

#include "model/device/cuda/backend.h"

namespace trireme {

void copy_bytes(Stream& stream, std::byte* to, const std::byte* from, std::size_t bytes) {
  if (!stream.executes() || bytes == 0) return;
  if (stream.on_cuda()) {
    cuda::copy(to, from, bytes, stream.handle(), stream.device().index);
  } else {
    std::memcpy(to, from, bytes);
  }
}

void fill_bytes(Stream& stream, std::byte* to, unsigned char value, std::size_t bytes) {
  if (!stream.executes() || bytes == 0) return;
  if (stream.on_cuda()) {
    cuda::fill(to, value, bytes, stream.handle(), stream.device().index);
  } else {
    std::memset(to, value, bytes);
  }
}

}  // namespace trireme
