#pragma once
#include <string>

namespace trireme::comm {

// "2.28.9", as this program was compiled and as it runs; empty in a build without NCCL.
struct NcclVersion {
  std::string compiled;
  std::string running;
};
NcclVersion nccl_version();

// MPI as it runs, in its own words: "Open MPI v4.1.4". MPI need not have been started.
std::string mpi_version();

}  // namespace trireme::comm
