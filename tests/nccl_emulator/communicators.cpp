#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>

#include "model/base/error.h"
#include "tests/cuda_emulator/device_memory.h"
#include "tests/cuda_emulator/device_queues.h"
#include "tests/cuda_emulator/streams.h"
#include "tests/nccl_emulator/clique.h"
#include "tests/nccl_emulator/launches.h"

namespace {

using trireme::say;
using trireme::emulator::fail_job;
using trireme::emulator::wait_until;
using namespace trireme::emulator::nccl;

std::uint64_t ids = 0;
std::map<std::string, std::shared_ptr<Clique>> joining;  // until all have come

struct Group {
  int depth = 0;
  std::vector<std::shared_ptr<Kernel>> kernels;  // one for each communicator
};

// The group of calls of the running rank.
Group& group() {
  static std::uint64_t of_job = 0;
  static std::map<int, Group> groups;
  if (of_job != trireme::emulator::job_number()) groups.clear();
  of_job = trireme::emulator::job_number();
  return groups[trireme::emulator::job_rank()];
}

bool is_on_device(const std::byte* at, std::size_t bytes) {
  return bytes == 0 || trireme::emulator::DeviceMemory::get().holds(at, bytes);
}

ncclResult_t add(ncclComm_t comm, cudaStream_t stream, const Op& op) {
  const std::size_t bytes = op.count * size_of(op.type);
  const auto size = static_cast<std::size_t>(comm->clique->size);
  const std::size_t sent = op.kind == OpKind::kReduceScatter ? bytes * size : bytes;
  const std::size_t received = op.kind == OpKind::kAllGather ? bytes * size : bytes;
  if ((op.from != nullptr && !is_on_device(op.from, sent)) ||
      (op.to != nullptr && !is_on_device(op.to, received)) || op.peer >= comm->clique->size) {
    return ncclInvalidArgument;
  }
  Group& here = group();
  const bool alone = here.depth == 0;
  if (alone) ncclGroupStart();
  auto found = std::find_if(here.kernels.begin(), here.kernels.end(),
                            [&](const auto& kernel) { return kernel->comm == comm; });
  if (found == here.kernels.end()) {
    here.kernels.push_back(std::make_shared<Kernel>(Kernel{comm, stream, {}, 0}));
    found = here.kernels.end() - 1;
  }
  if ((*found)->stream != stream) return ncclInvalidUsage;
  (*found)->ops.push_back(op);
  return alone ? ncclGroupEnd() : ncclSuccess;
}

const std::byte* bytes_at(const void* data) {
  return static_cast<const std::byte*>(data);
}
std::byte* bytes_at(void* data) {
  return static_cast<std::byte*>(data);
}

}  // namespace

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::memset(id->internal, 0, sizeof id->internal);
  std::snprintf(id->internal, sizeof id->internal, "emulated %llu",
                static_cast<unsigned long long>(++ids));
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  trireme::emulator::wait_for_running_kernels("ncclCommInitRankConfig");
  std::shared_ptr<Clique>& clique = joining[id.internal];
  if (!clique) clique = std::make_shared<Clique>();
  clique->size = size;
  *comm = new ncclComm;
  (*comm)->clique = clique;
  (*comm)->rank = rank;
  (*comm)->device = trireme::emulator::current_device();
  (*comm)->is_blocking = config->blocking != 0;
  (*comm)->name = config->commName ? config->commName : "";
  if (++(*comm)->clique->joined == size) joining.erase(id.internal);
  if (!(*comm)->is_blocking) return ncclInProgress;
  wait_until([all = (*comm)->clique] { return all->joined == all->size; },
             say("the ranks of '", (*comm)->name, "'"));
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  wait_until([comm] { return comm->finished == comm->launched && comm->calls_in_progress == 0; },
             say("the operations of '", comm->name, "'"));
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  ncclCommFinalize(comm);
  trireme::emulator::wait_for_running_kernels("ncclCommDestroy");
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  fail_job(say("rank ", comm->rank, " aborts '", comm->name, "'"));
  return ncclSuccess;
}

// Whoever asks does so until all calls have ended: a poll that would return too early only asks
// again.
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  wait_until(
      [comm] { return comm->calls_in_progress == 0 && comm->clique->joined == comm->clique->size; },
      say("the calls of '", comm->name, "' in progress"));
  *error = ncclSuccess;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclInvalidArgument ? "invalid argument"
         : result == ncclInvalidUsage  ? "invalid usage"
                                       : "an error";
}

const char* ncclGetLastError(ncclComm_t) {
  return "";
}

ncclResult_t ncclGroupStart() {
  ++group().depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  Group& here = group();
  if (--here.depth > 0) return ncclSuccess;
  ncclResult_t result = ncclSuccess;
  for (const auto& kernel : std::exchange(here.kernels, {})) {
    if (!kernel->comm->is_blocking) result = ncclInProgress;
    launch(kernel);
  }
  return result;
}

ncclResult_t ncclSend(const void* data, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return add(comm, stream, {OpKind::kSend, bytes_at(data), nullptr, count, type, ncclSum, peer});
}
ncclResult_t ncclRecv(void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add(comm, stream, {OpKind::kReceive, nullptr, bytes_at(data), count, type, ncclSum, peer});
}
ncclResult_t ncclAllGather(const void* sent, void* received, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return add(comm, stream,
             {OpKind::kAllGather, bytes_at(sent), bytes_at(received), count, type, ncclSum, -1});
}
ncclResult_t ncclAllReduce(const void* sent, void* received, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t reduce, ncclComm_t comm, cudaStream_t stream) {
  return add(comm, stream,
             {OpKind::kAllReduce, bytes_at(sent), bytes_at(received), count, type, reduce, -1});
}
ncclResult_t ncclReduceScatter(const void* sent, void* received, std::size_t count,
                               ncclDataType_t type, ncclRedOp_t reduce, ncclComm_t comm,
                               cudaStream_t stream) {
  return add(comm, stream,
             {OpKind::kReduceScatter, bytes_at(sent), bytes_at(received), count, type, reduce, -1});
}
ncclResult_t ncclBroadcast(const void* sent, void* received, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return add(comm, stream,
             {OpKind::kBroadcast, bytes_at(sent), bytes_at(received), count, type, ncclSum, root});
}
