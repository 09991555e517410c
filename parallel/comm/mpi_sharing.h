#pragma once
#include <mpi.h>

#include <cstddef>
#include <memory>

#include "parallel/comm/mpi_calls.h"
#include "parallel/comm/shared_memory.h"

namespace trireme::comm {

// Memory of `bytes`, of each rank its own number, that the ranks of `comm` share; collective.
// Nothing on all of them where one cannot map another's. Seen only by sources of this room.
std::unique_ptr<SharedMemory> share_memory(MPI_Comm comm, std::size_t bytes, const CallSite& site);

}  // namespace trireme::comm
