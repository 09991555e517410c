#include "parallel/comm/polling_wait.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>

namespace trireme::comm {
namespace {

using std::chrono::microseconds;

constexpr microseconds kYieldsOnly{400}, kShortestSleep{50}, kLongestSleep{1000};

// The scope that this thread is in, if any; scopes do not nest.
const PollingWait*& current_wait() {
  thread_local const PollingWait* wait = nullptr;
  return wait;
}

int yield_core() {
  return static_cast<int>(::syscall(SYS_sched_yield));
}

}  // namespace

PollingWait::PollingWait() : begin_(std::chrono::steady_clock::now()) {
  current_wait() = this;
}

PollingWait::~PollingWait() {
  current_wait() = nullptr;
}

void PollingWait::yield() const {
  const auto waited = std::chrono::steady_clock::now() - begin_;
  if (waited < kYieldsOnly) {
    yield_core();
    return;
  }
  const auto sleep = std::clamp(std::chrono::duration_cast<microseconds>(waited / 8),
                                kShortestSleep, kLongestSleep);
  const timespec time{.tv_sec = 0, .tv_nsec = std::chrono::nanoseconds(sleep).count()};
  ::nanosleep(&time, nullptr);  // may end early, by a signal
}

// Takes the place of libc's in the program and in the libraries that it loads.
extern "C" int sched_yield() noexcept {
  if (const PollingWait* wait = current_wait()) {
    wait->yield();
    return 0;
  }
  return yield_core();
}

}  // namespace trireme::comm
