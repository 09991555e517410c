#include <algorithm>
#include <atomic>
#include <exception>
#include <new>
#include <optional>

#include "checkpoint/load.h"
#include "checkpoint/loader.h"

namespace trireme::checkpoint {
namespace {

// Shared memory of a rank: a failure flag, then two buffers, of which one is filled while the other
// ranks read the other one.
constexpr std::size_t kPlace = ReadPlan::kMostShown + 2 * kBlock;
static_assert(ReadPlan::kMostShown % kBlock == 0 && 2 * ReadPlan::kMostShown <= kWindow);

std::byte* place_of(const HostPeers& host, std::size_t rank, std::size_t round) {
  return host.memory_of(rank) + kBlock + round % 2 * kPlace;
}

// Runs work on the ranks of a host in lockstep: after each step either all continue or none.
class Steps {
 public:
  explicit Steps(HostPeers& host) : host_(host) { new (host.memory_of(host.place())) Flag(0); }

  // Whether all ranks completed the step; rethrows this rank's exception.
  template <class Work>
  bool take(const Work& work) {
    ++step_;
    std::exception_ptr failure;
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
      flag_of(host_.place()).store(step_, std::memory_order_relaxed);
    }
    host_.meet();
    if (failure) std::rethrow_exception(failure);
    for (std::size_t rank = 0; rank < host_.size(); ++rank) {
      // A rank that is ahead may already have failed in the next step.
      const std::uint64_t failed = flag_of(rank).load(std::memory_order_relaxed);
      if (failed != 0 && failed <= step_) return false;
    }
    return true;
  }

 private:
  using Flag = std::atomic<std::uint64_t>;  // the step in which a rank failed; 0: none
  static_assert(Flag::is_always_lock_free && sizeof(Flag) <= kBlock);
  Flag& flag_of(std::size_t rank) const {
    return *std::launder(reinterpret_cast<Flag*>(host_.memory_of(rank)));
  }

  HostPeers& host_;
  std::uint64_t step_ = 0;
};

// Receives the parts that one rank shares, one box after the other.
class Taker {
 public:
  void take(const Loader& loader, const ReadPart& part, const std::byte* memory) {
    if (rectangle_ != part.rectangle) transfer_ = loader.transfer_of(part);
    rectangle_ = part.rectangle;
    Loader::take(transfer_, part, memory);
  }

 private:
  const Rectangle* rectangle_ = nullptr;
  Transfer transfer_;
};

}  // namespace

std::size_t shared_bytes() {
  return kBlock + 2 * kPlace;
}

bool load_together(const std::filesystem::path& folder, const Manifest& manifest,
                   std::span<const std::span<const Piece>> wanted, HostPeers& host) {
  const std::size_t own = host.place();
  Steps steps(host);
  std::optional<Loader> loader;
  ReadPlan plan;
  std::vector<Taker> takers;
  std::size_t rounds = 0;
  const bool begun = steps.take([&] {
    loader.emplace(folder, manifest, wanted[own]);
    plan = plan_reads(manifest, wanted, own);
    takers.resize(wanted.size());
    for (const auto& parts : plan.shown) rounds = std::max(rounds, parts.size());
    loader->read(plan.own);
  });
  if (!begun) return false;
  const auto show = [&](std::size_t round) {
    const std::vector<ReadPart>& mine = plan.shown[own];
    if (round < mine.size()) loader->read_shown(mine[round], place_of(host, own, round));
  };
  const auto take = [&](std::size_t round) {
    for (std::size_t rank = 0; rank < takers.size(); ++rank) {
      const std::vector<ReadPart>& theirs = plan.shown[rank];
      if (round >= theirs.size()) continue;
      takers[rank].take(*loader, theirs[round], place_of(host, rank, round));
    }
  };
  for (std::size_t round = 0; round <= rounds; ++round) {
    const bool all_well = steps.take([&] {
      // Half of the ranks read from disk while the others copy.
      if (own % 2 == 0) show(round);
      if (round > 0) take(round - 1);
      if (own % 2 != 0) show(round);
    });
    if (!all_well) return false;
  }
  loader->verify_memory();
  return true;
}

}  // namespace trireme::checkpoint
