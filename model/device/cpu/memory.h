#pragma once
#include <cstddef>

namespace trireme::cpu {

// Allocates zeroed, page-aligned memory, on huge pages for large blocks. Throws EnvironmentError.
std::byte* allocate(std::size_t bytes);
// Faults in all pages, on all compute threads.
void touch(std::byte* data, std::size_t bytes);
void release(std::byte* data, std::size_t bytes) noexcept;

}  // namespace trireme::cpu
