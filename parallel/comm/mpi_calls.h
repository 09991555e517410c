#pragma once
#include <mpi.h>

#include <cstdint>
#include <string>

#include "model/tensor/dtype.h"

// Helpers for MPI calls. Internal to parallel/comm.
namespace trireme::comm {

// Location of a call for error messages. Ranks are positions in the group.
struct CallSite {
  const char* call = "";
  const std::string& group;
  int rank = 0;
  int size = 1;
  int peer = -1;  // -1: none
};

// "all_reduce in group 'tensor', rank 1 of 4, with rank 2"
std::string place(const CallSite& site);
// Throws PeerError with MPI's error text unless `status` is MPI_SUCCESS.
void check(int status, const CallSite& site);
// Throws PeerError unless the message has `count` elements of `dtype`.
void check_received(const MPI_Status& status, std::int64_t count, DType dtype,
                    const CallSite& site);

MPI_Datatype mpi_type_of(DType dtype);
// MPI element counts are int: throws Error if `count` does not fit.
int mpi_count(std::int64_t count, const CallSite& site);

}  // namespace trireme::comm
