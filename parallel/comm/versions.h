#pragma once
#include <string>

namespace trireme::comm {

// "2.28.9", compile-time and run-time version; empty in a build without NCCL.
struct NcclVersion {
  std::string compiled;
  std::string running;
};
NcclVersion nccl_version();

// MPI library version as it reports itself: "Open MPI v4.1.4". Callable before MPI_Init.
std::string mpi_version();

}  // namespace trireme::comm
