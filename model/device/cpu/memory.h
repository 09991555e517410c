#pragma once
#include <cstddef>

namespace trireme::cpu {

// Zeroed, page-aligned, on huge pages where they are worth it. Throws EnvironmentError.
std::byte* allocate(std::size_t bytes);
void release(std::byte* data, std::size_t bytes) noexcept;

}  // namespace trireme::cpu
