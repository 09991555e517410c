#include "parallel/comm/mpi_calls.h"

#include <array>
#include <limits>

#include "model/base/error.h"

namespace trireme::comm {

std::string place(const CallSite& site) {
  std::string text =
      say(site.call, " in group '", site.group, "', rank ", site.rank, " of ", site.size);
  if (site.peer >= 0) text += say(", with rank ", site.peer);
  return text;
}

void check(int status, const CallSite& site) {
  if (status == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(status, text.data(), &length);
  throw PeerError(say(place(site), " failed: ", text.data()));
}

void check_received(const MPI_Status& status, std::int64_t count, DType dtype,
                    const CallSite& site) {
  int arrived = 0;
  check(MPI_Get_count(&status, mpi_type_of(dtype), &arrived), site);
  if (arrived == count) return;
  throw PeerError(say(place(site), ": ", arrived, " ", name_of(dtype), " arrived, not ", count,
                      ": the ranks are out of step"));
}

MPI_Datatype mpi_type_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return MPI_FLOAT;
    case DType::kF64:
      return MPI_DOUBLE;
    case DType::kBf16:
    case DType::kF16:
      return MPI_UINT16_T;
    case DType::kI32:
      return MPI_INT32_T;
  }
  return MPI_DATATYPE_NULL;
}

int mpi_count(std::int64_t count, const CallSite& site) {
  if (count > std::numeric_limits<int>::max()) {
    throw Error(say(place(site), ": ", count, " elements, more than MPI's ",
                    std::numeric_limits<int>::max(), " in one message"));
  }
  return static_cast<int>(count);
}

std::string mpi_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string all(text.data(), static_cast<std::size_t>(length));
  return all.substr(0, all.find_first_of(",\n"));
}

}  // namespace trireme::comm
