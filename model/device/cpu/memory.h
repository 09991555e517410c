#pragma once
#include <cstddef>

namespace trireme::cpu {

// Allocates zeroed, page-aligned memory, on huge pages for large blocks. Throws EnvironmentError.
std::byte* allocate(std::size_t bytes);
// Has the system provide all pages now, by all threads.
void touch(std::byte* data, std::size_t bytes);
void release(std::byte* data, std::size_t bytes) noexcept;

}  // namespace trireme::cpu
