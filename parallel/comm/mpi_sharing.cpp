#include "parallel/comm/mpi_sharing.h"

#include <vector>

namespace trireme::comm {

std::unique_ptr<SharedMemory> share_memory(MPI_Comm comm, std::size_t bytes, const CallSite& site) {
  const SharedMemory::File own(bytes);
  using Place = SharedMemory::File::Place;
  int rank = 0, size = 1;
  check(MPI_Comm_rank(comm, &rank), site);
  check(MPI_Comm_size(comm, &size), site);
  std::vector<Place> places(static_cast<std::size_t>(size));
  check(MPI_Allgather(&own.place(), sizeof(Place), MPI_BYTE, places.data(), sizeof(Place), MPI_BYTE,
                      comm),
        site);
  std::unique_ptr<SharedMemory> memory = SharedMemory::map(places, rank);
  int agreed = memory ? 1 : 0;
  check(MPI_Allreduce(MPI_IN_PLACE, &agreed, 1, MPI_INT, MPI_MIN, comm), site);
  if (agreed == 0) memory.reset();
  return memory;
}

}  // namespace trireme::comm
