#include "tests/cuda_emulator/block.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <numeric>
#include <ostream>
#include <utility>
#include <vector>

#include <emulator/warp.h>
#include "model/base/error.h"
#include "tests/cuda_emulator/fibers.h"
#include "tests/cuda_emulator/shared_memory.h"

namespace trireme::emulator {

static std::ostream& operator<<(std::ostream& out, Site site) {
  return out << site.file << ":" << site.line;
}

namespace {

// Threads that wait for each other: `round` grows when they have all come.
struct Gathering {
  unsigned mask = 0;  // of a warp's lanes
  unsigned arrived = 0;
  std::uint64_t round = 0;
  Site site{};
  // Of this round and of the one before, which some may still read.
  unsigned present[2] = {};
  Slots slots[2];
};

// A barrier of some of a block's threads.
struct NamedBarrier {
  unsigned arrived = 0, count = 0;
  std::uint64_t round = 0;
};

// An mbarrier.
struct Phases {
  unsigned arrivals = 0, missing = 0;
  std::int64_t bytes = 0;  // announced and not yet copied
  std::uint64_t round = 0;
  std::vector<std::function<std::size_t()>> copies;
};

struct Warp {
  std::vector<std::unique_ptr<Gathering>> gatherings;
  unsigned existing = 0;
  unsigned left = 0;
};

struct Thread {
  uint3 index;
  const std::uint64_t* waits_for = nullptr;  // until it is no longer `seen`
  std::uint64_t seen = 0;
  Site site{};
  bool done = false;
};

class Block {
 public:
  std::string run(const Launch& launch, uint3 index, bool backwards);

  void sync(Site site);
  int count(bool value, Site site);
  Meeting meet(unsigned mask, const void* value, std::size_t bytes, Site site);
  void come_to(unsigned id, unsigned count, bool waits, Site site);
  void start_phases(const void* at, unsigned arrivals);
  void arrive(const void* at, std::size_t announced, Site site);
  void wait_for_phase(const void* at, unsigned parity, Site site);
  void copy_later(const void* at, std::function<std::size_t()> copy, Site site);
  unsigned lane() const { return running_ % 32; }
  // Ends the block.
  void fault(const std::string& why) {
    if (fault_.empty()) fault_ = why;
    fibers_.pause();
  }
  std::byte* shared() { return shared_.data(); }

 private:
  // Apart from what threads do all the time, so that its texts take no room on their stacks.
  template <class... Words>
  [[gnu::noinline, gnu::cold]] void refuse(const Words&... words) {
    fault(say(words...));
  }
  void start(const Launch& launch);
  void turn_to(unsigned thread);
  void leave();
  void wait_for(const std::uint64_t& round, Site site);
  Gathering& gathering(unsigned mask);
  void complete(Gathering& gathering);
  Phases& phases(const void* at, Site site);
  static void end_phase(Phases& phases);
  static void finish_copies(Phases& phases);
  bool finish_copies_waited_for();
  std::string stuck() const;
  Warp& warp() { return warps_[running_ / 32]; }

  Fibers fibers_;
  SharedMemory shared_;
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  unsigned running_ = 0, finished_ = 0;
  unsigned at_barrier_ = 0;
  int holds_ = 0, held_[2] = {};
  std::uint64_t barrier_round_ = 0;
  Site barrier_{};
  NamedBarrier named_[16];
  std::map<const void*, Phases> phases_;
  std::string fault_;
};

bool same(Site a, Site b) {
  return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}
void Block::start(const Launch& launch) {
  const dim3 size = launch.block;
  const unsigned count = size.x * size.y * size.z;
  threads_.assign(count, {});
  warps_.resize((count + 31) / 32);
  for (Warp& warp : warps_) {
    warp.gatherings.clear();
    warp.existing = warp.left = 0;
  }
  for (unsigned i = 0; i < count; ++i) {
    threads_[i].index = {i % size.x, i / size.x % size.y, i / size.x / size.y};
    warps_[i / 32].existing |= 1u << i % 32;
  }
  finished_ = at_barrier_ = 0;
  holds_ = 0;
  for (NamedBarrier& barrier : named_) barrier.arrived = 0;
  phases_.clear();
  fault_.clear();
  shared_.prepare(launch.shared_bytes);
  fibers_.prepare(count, launch.body);
}

std::string Block::run(const Launch& launch, uint3 index, bool backwards) {
  start(launch);
  blockIdx = index;
  const auto count = static_cast<unsigned>(threads_.size());
  while (finished_ < count) {
    bool moved = false;
    for (unsigned step = 0; step < count; ++step) {
      const unsigned i = backwards ? count - 1 - step : step;
      Thread& thread = threads_[i];
      if (thread.done || (thread.waits_for && *thread.waits_for == thread.seen)) continue;
      thread.waits_for = nullptr;
      turn_to(i);
      moved = true;
      if (!fault_.empty()) return fault_;
    }
    if (!moved && !finish_copies_waited_for()) return stuck();
  }
  for (const auto& [at, phases] : phases_) {
    if (!phases.copies.empty()) return "no thread has waited for a copy to shared memory";
  }
  return {};
}

void Block::turn_to(unsigned thread) {
  running_ = thread;
  threadIdx = threads_[thread].index;
  if (fibers_.resume(thread)) leave();
}

void Block::leave() {
  threads_[running_].done = true;
  ++finished_;
  warp().left |= 1u << lane();
  // Barriers of a warp count only the threads that are still there, those of a block all.
  for (const auto& gathering : warp().gatherings) {
    if (gathering->arrived) complete(*gathering);
  }
  if (at_barrier_ > 0 && fault_.empty()) {
    fault_ = say("a thread has left while others wait at ", barrier_);
  }
}

void Block::wait_for(const std::uint64_t& round, Site site) {
  Thread& thread = threads_[running_];
  thread.waits_for = &round;
  thread.seen = round;
  thread.site = site;
  fibers_.pause();
}

void Block::sync(Site site) {
  if (finished_ > 0) refuse("a thread waits at ", site, " for one that has left");
  if (at_barrier_ > 0 && !same(site, barrier_)) {
    refuse("threads of one block wait at ", barrier_, " and at ", site);
  }
  barrier_ = site;
  if (++at_barrier_ < threads_.size()) {
    wait_for(barrier_round_, site);
    return;
  }
  at_barrier_ = 0;
  ++barrier_round_;
  held_[barrier_round_ & 1] = holds_;
  holds_ = 0;
}

int Block::count(bool value, Site site) {
  holds_ += value ? 1 : 0;
  sync(site);
  return held_[barrier_round_ & 1];
}

void Block::come_to(unsigned id, unsigned count, bool waits, Site site) {
  if (id >= std::size(named_)) return refuse("there is no barrier ", id, " at ", site);
  NamedBarrier& barrier = named_[id];
  if (barrier.arrived > 0 && barrier.count != count) {
    return refuse("barrier ", id, " at ", site, " is of ", barrier.count, " threads, not ", count);
  }
  barrier.count = count;
  if (++barrier.arrived < count) {
    if (waits) wait_for(barrier.round, site);
    return;
  }
  barrier.arrived = 0;
  ++barrier.round;
}

void Block::start_phases(const void* at, unsigned arrivals) {
  Phases& here = phases_[at] = {};
  here.arrivals = here.missing = arrivals;
}

Phases& Block::phases(const void* at, Site site) {
  const auto found = phases_.find(at);
  if (found == phases_.end()) refuse("no phase barrier has been started where ", site, " uses one");
  return found->second;
}

void Block::end_phase(Phases& phases) {
  if (phases.missing > 0 || phases.bytes != 0) return;
  phases.missing = phases.arrivals;
  ++phases.round;
}

void Block::arrive(const void* at, std::size_t announced, Site site) {
  Phases& here = phases(at, site);
  if (here.missing == 0) refuse("more arrive at ", site, " than a phase has");
  here.bytes += static_cast<std::int64_t>(announced);
  --here.missing;
  end_phase(here);
}

void Block::finish_copies(Phases& phases) {
  const auto copies = std::exchange(phases.copies, {});
  for (const auto& copy : copies) phases.bytes -= static_cast<std::int64_t>(copy());
  if (!copies.empty()) end_phase(phases);
}

// Copies that were started after all who need them had begun to wait.
bool Block::finish_copies_waited_for() {
  bool found = false;
  for (auto& [at, phases] : phases_) {
    const auto waits = [&](const Thread& t) { return !t.done && t.waits_for == &phases.round; };
    if (phases.copies.empty() || std::none_of(threads_.begin(), threads_.end(), waits)) continue;
    finish_copies(phases);
    found = true;
  }
  return found;
}

void Block::wait_for_phase(const void* at, unsigned parity, Site site) {
  Phases& here = phases(at, site);
  while ((here.round & 1) == parity) {
    finish_copies(here);
    if ((here.round & 1) == parity) wait_for(here.round, site);
  }
}

void Block::copy_later(const void* at, std::function<std::size_t()> copy, Site site) {
  phases(at, site).copies.push_back(std::move(copy));
}

Gathering& Block::gathering(unsigned mask) {
  for (const auto& known : warp().gatherings) {
    if (known->mask == mask) return *known;
  }
  warp().gatherings.push_back(std::make_unique<Gathering>());
  warp().gatherings.back()->mask = mask;
  return *warp().gatherings.back();
}

void Block::complete(Gathering& gathering) {
  const unsigned expected = gathering.mask & warp().existing & ~warp().left;
  if ((expected & ~gathering.arrived) != 0) return;
  gathering.present[gathering.round & 1] = gathering.arrived;
  gathering.arrived = 0;
  ++gathering.round;
}

Meeting Block::meet(unsigned mask, const void* value, std::size_t bytes, Site site) {
  if ((mask >> lane() & 1) == 0) {
    refuse("a lane at ", site, " is not among those it waits with");
  }
  Gathering& here = gathering(mask);
  if (here.arrived != 0 && !same(site, here.site)) {
    refuse("lanes of one warp wait at ", here.site, " and at ", site);
  }
  const std::uint64_t round = here.round;
  here.site = site;
  here.arrived |= 1u << lane();
  std::memcpy(here.slots[round & 1][lane()].bytes, value, bytes);
  complete(here);
  if (here.round == round) wait_for(here.round, site);
  return {here.present[round & 1], &here.slots[round & 1]};
}

std::string Block::stuck() const {
  const auto waiting =
      std::find_if(threads_.begin(), threads_.end(), [](const Thread& t) { return !t.done; });
  return say("nobody can go on: a thread waits at ", waiting->site, " for some that do not come");
}

Block block;

}  // namespace

std::string run(const Launch& launch) {
  blockDim = launch.block;
  gridDim = launch.grid;
  const std::uint64_t blocks =
      std::uint64_t{launch.grid.x} * launch.grid.y * std::uint64_t{launch.grid.z};
  // A stride without a common factor visits every block once, in no natural order.
  std::uint64_t stride = blocks * 5 / 8 + 1;
  while (std::gcd(stride, blocks) != 1) ++stride;
  for (std::uint64_t i = 0; i < blocks; ++i) {
    const std::uint64_t at = (i * stride + blocks / 2) % blocks;
    const uint3 index{static_cast<unsigned>(at % launch.grid.x),
                      static_cast<unsigned>(at / launch.grid.x % launch.grid.y),
                      static_cast<unsigned>(at / launch.grid.x / launch.grid.y)};
    const std::string wrong = block.run(launch, index, i % 2 == 1);
    if (!wrong.empty()) {
      return say("block (", index.x, ", ", index.y, ", ", index.z, "): ", wrong);
    }
  }
  return {};
}

std::byte* dynamic_shared_memory() {
  return block.shared();
}
void sync_block(Site site) {
  block.sync(site);
}
int count_in_block(bool value, Site site) {
  return block.count(value, site);
}
void come_to_barrier(unsigned id, unsigned count, bool waits, Site site) {
  block.come_to(id, count, waits, site);
}
void start_phases(const void* at, unsigned arrivals) {
  block.start_phases(at, arrivals);
}
void arrive_at_phase(const void* at, std::size_t announced, Site site) {
  block.arrive(at, announced, site);
}
void wait_for_phase(const void* at, unsigned parity, Site site) {
  block.wait_for_phase(at, parity, site);
}
void copy_before_phase_ends(const void* at, std::function<std::size_t()> copy, Site site) {
  block.copy_later(at, std::move(copy), site);
}
Meeting meet(unsigned mask, const void* value, std::size_t bytes, Site site) {
  return block.meet(mask, value, bytes, site);
}
unsigned lane() {
  return block.lane();
}
void refuse_absent(unsigned source, Site site) {
  block.fault(say("a lane at ", site, " reads lane ", source, ", which gave nothing"));
}

}  // namespace trireme::emulator
