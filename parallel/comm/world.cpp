#include "parallel/comm/world.h"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <numeric>
#include <utility>

#include "model/base/host_name.h"
#include "model/device/devices.h"
#include "parallel/comm/gpu_environment.h"
#include "parallel/comm/mpi_calls.h"
#include "parallel/comm/mpi_communicator.h"
#include "parallel/comm/mpi_sharing.h"
#include "parallel/comm/nccl_groups.h"
#include "parallel/comm/self_communicator.h"
#include "parallel/comm/shared_communicator.h"
#include "parallel/comm/staged_communicator.h"
#include "parallel/comm/versions.h"

namespace trireme {
namespace {

using HostName = std::array<char, 256>;

// Whether every rank's list equals the group that MPI formed.
bool have_agreed(MPI_Comm comm, const std::vector<int>& ranks) {
  MPI_Group group = MPI_GROUP_NULL, world = MPI_GROUP_NULL;
  MPI_Comm_group(comm, &group);
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  int size = 0;
  MPI_Group_size(group, &size);
  std::vector<int> positions(static_cast<std::size_t>(size)), members(positions.size());
  for (int i = 0; i < size; ++i) positions[static_cast<std::size_t>(i)] = i;
  MPI_Group_translate_ranks(group, size, positions.data(), world, members.data());
  MPI_Group_free(&group);
  MPI_Group_free(&world);
  int agreed = members == ranks ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &agreed, 1, MPI_INT, MPI_MIN, comm);
  return agreed == 1;
}

// The ranks that share this rank's memory; the caller frees the communicator.
MPI_Comm split_off_host(int rank, const comm::CallSite& site) {
  MPI_Comm host = MPI_COMM_NULL;
  comm::check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host),
              site);
  return host;
}

// "ranks 0 and 1 share a GPU" for the first such pair; otherwise empty.
std::string first_shared(const std::vector<std::string>& gpus) {
  for (auto later = gpus.begin(); later != gpus.end(); ++later) {
    const auto earlier = std::find(gpus.begin(), later, *later);
    if (earlier == later) continue;
    return say("ranks ", earlier - gpus.begin(), " and ", later - gpus.begin(), " share a GPU");
  }
  return {};
}

}  // namespace

World::World(const Variables& variables) : exceptions_(std::uncaught_exceptions()) {
  if (!has_wired_ranks(variables)) {
    refuse_unjoined_ranks(variables, 1);
    hosts_.push_back(own_host_name());
    recorder().begin(0, 1, hosts_.front());
    return;
  }
  comm::set_gpu_variables(variables);
  // Open MPI writes to a lost peer's socket without MSG_NOSIGNAL: a healthy rank would die with it.
  std::signal(SIGPIPE, SIG_IGN);
  int thread_level = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &thread_level);
  has_mpi_ = true;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  if (size_ == 1 && launched_ranks(variables) > 1) MPI_Finalize();  // before throwing
  refuse_unjoined_ranks(variables, size_);
  find_neighbours();
  recorder().begin(rank_, size_, hosts_[static_cast<std::size_t>(rank_)]);
  std::vector<int> all_ranks(static_cast<std::size_t>(size_));
  std::iota(all_ranks.begin(), all_ranks.end(), 0);
  group_ = recorder().add_group("world", all_ranks);
}

void World::find_neighbours() {
  const std::string world = "world";
  const comm::CallSite site{"start", world, rank_, size_};
  MPI_Comm node = split_off_host(rank_, site);
  MPI_Comm_rank(node, &local_rank_);
  MPI_Comm_size(node, &local_size_);
  std::vector<int> neighbours(static_cast<std::size_t>(local_size_));
  comm::check(MPI_Allgather(&rank_, 1, MPI_INT, neighbours.data(), 1, MPI_INT, node), site);
  MPI_Comm_free(&node);
  local_ranks_.assign(static_cast<std::size_t>(size_), -1);
  for (int i = 0; i < local_size_; ++i) {
    local_ranks_[static_cast<std::size_t>(neighbours[static_cast<std::size_t>(i)])] = i;
  }
  std::vector<HostName> names(static_cast<std::size_t>(size_));
  HostName own{};
  own_host_name().copy(own.data(), own.size() - 1);
  comm::check(MPI_Allgather(own.data(), own.size(), MPI_CHAR, names.data(), own.size(), MPI_CHAR,
                            MPI_COMM_WORLD),
              site);
  for (const HostName& name : names) hosts_.emplace_back(name.data());
}

World::~World() {
  // No rank waits for a world of one: the exception propagates to the caller.
  if (has_mpi_ && size_ > 1 && std::uncaught_exceptions() > exceptions_) abort(ExitCode::kInternal);
  finalize();
}

void World::finalize() {
  if (!std::exchange(has_mpi_, false)) return;
  nccl_.reset();
  MPI_Finalize();
}

void World::use_device(Device device, bool reproducible) {
  require_present(device);
  device_ = device;
  ranks_on_device_ = device.is_cuda() ? 1 : local_size_;
  if (!has_mpi_) return;
  const std::vector<std::string> gpus = gpus_of_all();
  if (const auto without = std::find(gpus.begin(), gpus.end(), ""); without != gpus.end()) {
    if (std::all_of(gpus.begin(), gpus.end(), [](const auto& gpu) { return gpu.empty(); })) return;
    const auto rank = without - gpus.begin();
    throw on_all_ranks(
        EnvironmentError(say("rank ", rank, " on ", hosts_[static_cast<std::size_t>(rank)],
                             " has no GPU, but other ranks have one")));
  }
  ranks_on_device_ =
      static_cast<int>(std::count(gpus.begin(), gpus.end(), gpus[static_cast<std::size_t>(rank_)]));
  const std::string shared = first_shared(gpus);
  if (shared.empty()) nccl_ = NcclGroups::create(device, {.ordered_sums = reproducible});
  transport_ = nccl_ ? "NCCL " + comm::nccl_version().running
                     : "MPI through host memory, because " +
                           (shared.empty() ? std::string("NCCL is not built in") : shared);
}

// The GPU of every rank as host and device index; empty for a rank without one.
std::vector<std::string> World::gpus_of_all() const {
  using Name = std::array<char, 320>;
  Name own{};
  if (device_.is_cuda()) {
    say(hosts_[static_cast<std::size_t>(rank_)], " ", properties_of(device_).bus_id)
        .copy(own.data(), own.size() - 1);
  }
  std::vector<Name> all(static_cast<std::size_t>(size_));
  const std::string world = "world";
  comm::check(MPI_Allgather(own.data(), own.size(), MPI_CHAR, all.data(), own.size(), MPI_CHAR,
                            MPI_COMM_WORLD),
              {"start", world, rank_, size_});
  std::vector<std::string> gpus;
  for (const Name& name : all) gpus.emplace_back(name.data());
  return gpus;
}

std::unique_ptr<Communicator> World::split(const std::string& name, const std::vector<int>& ranks,
                                           std::size_t buffer_bytes, Messages messages) {
  const auto own = std::find(ranks.begin(), ranks.end(), rank_);
  require(own != ranks.end(), "group '", name, "' is created without rank ", rank_);
  if (!has_mpi_) return std::make_unique<SelfCommunicator>();
  const comm::CallSite site{"split", name, rank_, size_};
  const FlightRecorder::Entry entry =
      recorder().begin_collective(group_, flight::Operation::kSplit, /*bytes=*/0);
  const int color = *std::min_element(ranks.begin(), ranks.end());
  MPI_Comm comm = MPI_COMM_NULL;
  comm::check(MPI_Comm_split(MPI_COMM_WORLD, color, static_cast<int>(own - ranks.begin()), &comm),
              site);
  const bool agreed = have_agreed(comm, ranks);
  if (!agreed || ranks.size() == 1) MPI_Comm_free(&comm);
  require(agreed, "group '", name, "': its ranks pass different lists of members");
  std::unique_ptr<Communicator> group;
  if (ranks.size() == 1) {
    group = std::make_unique<SelfCommunicator>();
  } else {
    const std::vector<int> local_ranks = local_ranks_of(ranks);
    std::unique_ptr<SharedMemory> pages;
    if (!local_ranks.empty()) {
      const auto bytes = comm::SharedBarrier::bytes(static_cast<int>(ranks.size()));
      pages = comm::share_memory(comm, bytes, site);
    }
    group = std::make_unique<MpiCommunicator>(comm, name, buffer_bytes);
    if (pages) {
      group = std::make_unique<SharedCommunicator>(std::move(group), std::move(pages), memories_,
                                                   local_ranks, name);
    }
  }
  if (nccl_) {
    group = nccl_->add_device(std::move(group), ranks, name, messages);
  } else if (device_.is_cuda() && ranks.size() > 1) {
    group = std::make_unique<StagedCommunicator>(std::move(group), device_, buffer_bytes);
  }
  recorder().end(entry);
  if (ranks.size() == 1) return group;
  return std::make_unique<RecordedCommunicator>(std::move(group), recording_, name, ranks);
}

std::vector<int> World::local_ranks_of(const std::vector<int>& ranks) const {
  if (device_.is_cuda()) return {};
  std::vector<int> local;
  for (const int rank : ranks) local.push_back(local_ranks_[static_cast<std::size_t>(rank)]);
  if (std::count(local.begin(), local.end(), -1) > 0) local.clear();
  return local;
}

std::unique_ptr<SharedMemory> World::share(std::size_t bytes) {
  if (!has_mpi_) return nullptr;
  const std::string name = "world";
  const comm::CallSite site{"share", name, rank_, size_};
  const FlightRecorder::Entry entry =
      recorder().begin_collective(group_, flight::Operation::kAllGather, bytes);
  MPI_Comm host = split_off_host(rank_, site);
  std::unique_ptr<SharedMemory> memory;
  if (local_size_ > 1) memory = comm::share_memory(host, bytes, site);
  MPI_Comm_free(&host);
  recorder().end(entry);
  if (memory) {
    memory->enter(memories_);
  } else {
    memories_.add(nullptr);
  }
  return memory;
}

void World::abort(ExitCode code) {
  std::fflush(nullptr);
  if (has_mpi_) MPI_Abort(MPI_COMM_WORLD, static_cast<int>(code));
  std::_Exit(static_cast<int>(code));
}

}  // namespace trireme
