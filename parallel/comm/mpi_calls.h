#pragma once
#include <mpi.h>

#include <cstdint>
#include <string>

#include "model/tensor/dtype.h"

// What our uses of MPI have in common. Seen only by sources of this room.
namespace trireme::comm {

// Where a call was made, for messages. Ranks are positions in the group.
struct CallSite {
  const char* call = "";
  const std::string& group;
  int rank = 0;
  int size = 1;
  int peer = -1;  // none
};

// "all_reduce in group 'tensor', rank 1 of 4, with rank 2"
std::string place(const CallSite& site);
// Throws PeerError with MPI's own words unless `status` is MPI_SUCCESS.
void check(int status, const CallSite& site);
// Throws PeerError when a message is not of `count` elements of `dtype`.
void check_received(const MPI_Status& status, std::int64_t count, DType dtype,
                    const CallSite& site);

MPI_Datatype mpi_type_of(DType dtype);
// MPI counts elements in an int; throws Error where `count` is more.
int mpi_count(std::int64_t count, const CallSite& site);

}  // namespace trireme::comm
