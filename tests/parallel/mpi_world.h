#pragma once
#include <memory>

#include "parallel/comm/world.h"

namespace trireme::tests {

// The world of a test program under mpirun. Every rank runs every test; a fatal
// failure or an exception on one ends them all.
World& world();

// All its ranks as one group.
std::unique_ptr<Communicator> all_ranks(std::size_t buffer_bytes = World::kBufferBytes);

}  // namespace trireme::tests
