#pragma once
#include <mpi.h>

#include <cstddef>
#include <memory>

#include "parallel/comm/mpi_calls.h"
#include "parallel/comm/shared_memory.h"

namespace trireme::comm {

// Allocates memory that the ranks of `comm` share; `bytes` may differ by rank. Collective. Null on
// all ranks if one cannot map another's memory. Internal to parallel/comm.
std::unique_ptr<SharedMemory> share_memory(MPI_Comm comm, std::size_t bytes, const CallSite& site);

}  // namespace trireme::comm
