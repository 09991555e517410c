#include "parallel/comm/host_peers.h"

#include <exception>
#include <utility>

namespace trireme {
namespace {

std::vector<int> ranks_at(comm::SharedBarrier& meeting, int places, int rank) {
  meeting.show({.what = static_cast<std::uint32_t>(rank), .unused = 0, .count = 0, .place = {}});
  meeting.meet();
  std::vector<int> ranks;
  for (int i = 0; i < places; ++i) ranks.push_back(static_cast<int>(meeting.shown_by(i).what));
  return ranks;
}

}  // namespace

HostPeers::HostPeers(std::unique_ptr<SharedMemory> memory, std::unique_ptr<SharedMemory> pages,
                     int place, int rank, FlightRecorder& recorder)
    : memory_(std::move(memory)),
      barrier_(std::move(pages), place),
      place_(static_cast<std::size_t>(place)),
      ranks_(ranks_at(barrier_, memory_->ranks(), rank)),
      recorder_(recorder),
      group_(recorder_.add_group("host", ranks_)),
      exceptions_(std::uncaught_exceptions()) {}

HostPeers::~HostPeers() {
  if (std::uncaught_exceptions() == exceptions_) recorder_.remove_group(group_);
}

void HostPeers::meet() {
  const FlightRecorder::Entry entry =
      recorder_.begin_collective(group_, flight::Operation::kBarrier, /*bytes=*/0);
  barrier_.meet();
  recorder_.end(entry);
}

std::unique_ptr<HostPeers> host_peers_of(World& world, std::size_t bytes) {
  std::unique_ptr<SharedMemory> memory = world.share(bytes);
  std::unique_ptr<SharedMemory> pages = world.share(comm::SharedBarrier::bytes(world.local_size()));
  if (!memory || !pages) return nullptr;
  return std::make_unique<HostPeers>(std::move(memory), std::move(pages), world.local_rank(),
                                     world.rank(), world.recorder());
}

}  // namespace trireme
