#include <fmt/format.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <cstring>

#include "checkpoint/memory/memory_folder.h"
#include "checkpoint/memory/nodes.h"
#include "checkpoint/store/store.h"
#include "model/base/human.h"
#include "trainer/engine/engine_spec.h"
#include "trainer/engine/fit.h"
#include "trainer/engine/step_plan.h"
#include "trainer/supervise/preflight/check.h"

namespace trireme::preflight {
namespace {

constexpr const char* kSharedMemory = "/dev/shm";
// Open MPI's shared memory per rank, for messages within a node.
constexpr std::uint64_t kSegmentBytes = std::uint64_t{4} << 20;

std::uint64_t free_bytes(const std::filesystem::path& place) {
  struct statvfs status {};
  if (::statvfs(place.c_str(), &status) != 0) {
    throw EnvironmentError(
        say("cannot read the free space of ", place.string(), ": ", std::strerror(errno)));
  }
  return std::uint64_t{status.f_bavail} * status.f_frsize;
}

// Two snapshots of each rank of this node, and of its partner node.
std::uint64_t tier_bytes(const RunConfig& config, const World& world, const MemoryPlan& plan) {
  if (config.elastic.memory_interval == 0) return 0;
  const std::uint64_t copies = checkpoint::Nodes::by_host(world.hosts()).count() > 1 ? 2 : 1;
  return 2 * copies * snapshot_bytes(plan) * static_cast<std::uint64_t>(world.local_size());
}

// The next run replaces the snapshots of a killed run of the same identity.
std::string identity_of(const RunConfig& config) {
  try {
    return checkpoint::Store(config.job.dump_folder).run();
  } catch (const Error&) {
    return {};
  }
}

Figures measure_memory(const RunConfig& config, const World& world, const RankGroups& groups,
                       Device device) {
  const MemoryPlan plan = plan_memory(config, groups, device);
  const std::size_t available = available_memory(device, world.ranks_on_device());
  require_fit(config, device, plan, available);
  require_host_memory(config, device, plan, available_memory({}, world.local_size()));
  const std::uint64_t segments =
      world.local_size() > 1 ? kSegmentBytes * static_cast<std::uint64_t>(world.local_size()) : 0;
  const std::uint64_t shared = free_bytes(kSharedMemory);
  if (segments > shared) {
    throw EnvironmentError(fmt::format("{} has {} free, but MPI may need {}", kSharedMemory,
                                       human_bytes(shared), human_bytes(segments)));
  }
  const std::uint64_t tier = tier_bytes(config, world, plan);
  if (tier > 0) {
    const checkpoint::MemoryFolder folder(config.elastic.memory_folder, identity_of(config));
    checkpoint::check_memory_room(config.elastic.memory_folder, folder.path(), tier,
                                  available_host_memory());
  }
  return {{"planned_bytes", plan.total()},
          {"available_bytes", available},
          {"shared_memory_bytes", shared},
          {"memory_tier_bytes", tier}};
}

Judgment judge_memory(const std::vector<Figures>& by_rank) {
  const auto extreme = [&](const char* key, bool least) {
    std::uint64_t found = by_rank.front()[key].get<std::uint64_t>();
    for (const Figures& figures : by_rank) {
      const auto bytes = figures[key].get<std::uint64_t>();
      found = least ? std::min(found, bytes) : std::max(found, bytes);
    }
    return human_bytes(found);
  };
  return {fmt::format("{} planned of {} per rank; {} free in {}, {} per node for snapshots",
                      extreme("planned_bytes", false), extreme("available_bytes", true),
                      extreme("shared_memory_bytes", true), kSharedMemory,
                      extreme("memory_tier_bytes", false)),
          {}};
}

}  // namespace

Check memory_room(const RunConfig& config, const World& world, const RankGroups& groups,
                  Device device) {
  return {
      "memory",
      [&config, &world, &groups, device] { return measure_memory(config, world, groups, device); },
      judge_memory};
}

}  // namespace trireme::preflight
