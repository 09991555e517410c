#pragma once
#include <cstddef>
#include <functional>
#include <string>

#include <emulator/vectors.h>

namespace trireme::emulator {

struct Launch {
  dim3 grid, block;
  std::size_t shared_bytes = 0;
  std::function<void()> body;  // one thread's work
};

// Runs every block of a kernel, one after the other in a scrambled order, every thread of a
// block in turn until it waits for others. Returns what the kernel did wrong, or "": threads
// that wait at different barriers, or for one that has left; a lane's value read that was not
// given. What is written past the end of dynamic shared memory ends the process.
std::string run(const Launch& launch);

// A block's dynamic shared memory, 0xff in every byte (NaN) when the block starts.
std::byte* dynamic_shared_memory();

}  // namespace trireme::emulator
