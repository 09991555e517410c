#include "parallel/comm/neighbours.h"

#include <exception>
#include <utility>

namespace trireme {
namespace {

std::vector<int> ranks_at(comm::Meeting& meeting, int places, int rank) {
  meeting.show({.what = static_cast<std::uint32_t>(rank), .unused = 0, .count = 0, .place = {}});
  meeting.meet();
  std::vector<int> ranks;
  for (int i = 0; i < places; ++i) ranks.push_back(static_cast<int>(meeting.shown_by(i).what));
  return ranks;
}

}  // namespace

Neighbours::Neighbours(std::unique_ptr<SharedMemory> memory, std::unique_ptr<SharedMemory> pages,
                       int place, int rank, Ledger& ledger)
    : memory_(std::move(memory)),
      meeting_(std::move(pages), place),
      place_(static_cast<std::size_t>(place)),
      ranks_(ranks_at(meeting_, memory_->ranks(), rank)),
      ledger_(ledger),
      group_(ledger_.add_group("host", ranks_)),
      exceptions_(std::uncaught_exceptions()) {}

Neighbours::~Neighbours() {
  if (std::uncaught_exceptions() == exceptions_) ledger_.remove_group(group_);
}

void Neighbours::meet() {
  const Ledger::Entry entry =
      ledger_.begin_collective(group_, ledger::Operation::kBarrier, /*bytes=*/0);
  meeting_.meet();
  ledger_.end(entry);
}

std::unique_ptr<Neighbours> neighbours_of(World& world, std::size_t bytes) {
  std::unique_ptr<SharedMemory> memory = world.share(bytes);
  std::unique_ptr<SharedMemory> pages = world.share(comm::Meeting::kBytes);
  if (!memory || !pages) return nullptr;
  return std::make_unique<Neighbours>(std::move(memory), std::move(pages), world.local_rank(),
                                      world.rank(), world.ledger());
}

}  // namespace trireme
