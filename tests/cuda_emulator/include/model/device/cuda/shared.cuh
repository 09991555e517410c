#pragma once
// Instead of the file of this name among the sources.
#include <cstddef>

namespace trireme::emulator {
std::byte* dynamic_shared_memory();
}

namespace trireme::cuda {

template <class T>
T* dynamic_shared() {
  return reinterpret_cast<T*>(emulator::dynamic_shared_memory());
}

}  // namespace trireme::cuda
