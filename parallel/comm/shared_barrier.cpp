#include "parallel/comm/shared_barrier.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>
#include <utility>

#include "model/base/error.h"

namespace trireme::comm {
namespace {

// About ten microseconds, the cost of a sleep and a wake-up.
constexpr int kLooks = 200;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Sleeps while `word` is `value`; may wake spuriously.
void sleep_while(std::atomic<std::uint32_t>& word, std::uint32_t value) {
  constexpr timespec kLongest{.tv_sec = 0, .tv_nsec = 100'000'000};
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT, value, &kLongest,
            nullptr, 0);
}

void wake_all(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr,
            nullptr, 0);
}

}  // namespace

// The page of one rank, written by it alone except `sleepers`. Zeroed memory is a valid page before
// the first meeting.
struct SharedBarrier::Page {
  std::atomic<std::uint32_t> meetings;  // completed by this rank; wraps around
  std::atomic<std::uint32_t> sleepers;  // ranks that may sleep until `meetings` changes
  alignas(64) Call call;
};

SharedBarrier::SharedBarrier(std::unique_ptr<SharedMemory> pages, int rank)
    : pages_(std::move(pages)), rank_(rank) {
  static_assert(sizeof(Page) <= kPageBytes && std::atomic<std::uint32_t>::is_always_lock_free &&
                sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));
}

SharedBarrier::Page& SharedBarrier::page_of(int rank) const {
  return *reinterpret_cast<Page*>(pages_->of(rank).data);
}

void SharedBarrier::show(const Call& call) {
  page_of(rank_).call = call;
}

const SharedBarrier::Call& SharedBarrier::shown_by(int rank) const {
  return page_of(rank).call;
}

std::span<SharedBarrier::Block> SharedBarrier::blocks_of(int rank) const {
  return {reinterpret_cast<Block*>(pages_->of(rank).data + kPageBytes),
          static_cast<std::size_t>(pages_->ranks())};
}

void SharedBarrier::meet() {
  ++meetings_;
  Page& own = page_of(rank_);
  // Sequentially consistent with the sleeper's accesses: either it sees this number, or we see the
  // sleeper.
  own.meetings.store(meetings_, std::memory_order_seq_cst);
  if (own.sleepers.load(std::memory_order_seq_cst) > 0) wake_all(own.meetings);
  for (int r = 1; r < pages_->ranks(); ++r) wait_for(page_of((rank_ + r) % pages_->ranks()));
}

void SharedBarrier::wait_for(Page& page) {
  const auto seen = [&] { return page.meetings.load(std::memory_order_seq_cst); };
  // No rank is more than one meeting ahead.
  const auto has_come = [&](std::uint32_t number) {
    return static_cast<std::int32_t>(number - meetings_) >= 0;
  };
  for (int i = 0; i < kLooks; ++i) {
    if (has_come(seen())) return;
    relax();
  }
  page.sleepers.fetch_add(1, std::memory_order_seq_cst);
  for (std::uint32_t number = seen(); !has_come(number); number = seen()) {
    if (given_up_.load(std::memory_order_acquire)) {
      throw PeerError("the wait for another rank of this host was aborted");
    }
    sleep_while(page.meetings, number);
  }
  page.sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

}  // namespace trireme::comm
