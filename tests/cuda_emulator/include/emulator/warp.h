#pragma once
// Where the threads of a block or of a warp meet.
#include <array>
#include <cstddef>
#include <cstring>
#include <functional>

namespace trireme::emulator {

struct Site {
  const char* file;
  int line;
};

void sync_block(Site site);
// Returns when every thread has come, with the number of those whose `value` holds.
int count_in_block(bool value, Site site);

// Barrier `id` of a block, complete when `count` threads have arrived, whether or not they wait.
void come_to_barrier(unsigned id, unsigned count, bool waits, Site site);

// A phase barrier (mbarrier) at `at` in shared memory: a phase ends when all `arrivals` have come
// and as many bytes have been copied as were announced.
void start_phases(const void* at, unsigned arrivals);
void arrive_at_phase(const void* at, std::size_t announced, Site site);
// Returns when the phase of this parity has ended.
void wait_for_phase(const void* at, unsigned parity, Site site);
// A copy that happens as late as it may: when somebody waits for its barrier. Returns its bytes.
void copy_before_phase_ends(const void* at, std::function<std::size_t()> copy, Site site);

inline constexpr std::size_t kSlotBytes = 64;
struct alignas(16) Slot {
  std::byte bytes[kSlotBytes];
};
using Slots = std::array<Slot, 32>;

// What the lanes of `mask` brought to one meeting of theirs; it may be read until the
// reader's second next meeting.
struct Meeting {
  unsigned present;  // lanes that came
  const Slots* slots;
};
Meeting meet(unsigned mask, const void* value, std::size_t bytes, Site site);
unsigned lane();
// Ends the kernel, as a lane has asked for the value of one that brought none.
void refuse_absent(unsigned source, Site site);

// What lane `source` of those that came has brought.
template <class T>
const T& at_lane(const Meeting& meeting, unsigned source, Site site) {
  if ((meeting.present >> source & 1) == 0) refuse_absent(source, site);
  return *reinterpret_cast<const T*>((*meeting.slots)[source].bytes);
}
template <class T>
T from_lane(const Meeting& meeting, unsigned source, Site site) {
  return at_lane<T>(meeting, source, site);
}
template <class T>
Meeting meet(unsigned mask, const T& mine, Site site) {
  static_assert(sizeof(T) <= kSlotBytes);
  return meet(mask, &mine, sizeof(T), site);
}

}  // namespace trireme::emulator

#define TRIREME_SITE int line = __builtin_LINE(), const char *file = __builtin_FILE()

inline void __syncthreads(TRIREME_SITE) {
  trireme::emulator::sync_block({file, line});
}
inline int __syncthreads_count(int value, TRIREME_SITE) {
  return trireme::emulator::count_in_block(value != 0, {file, line});
}
inline int __syncthreads_or(int value, TRIREME_SITE) {
  return trireme::emulator::count_in_block(value != 0, {file, line}) > 0;
}
inline void __syncwarp(unsigned mask = 0xffffffffu, TRIREME_SITE) {
  trireme::emulator::meet(mask, 0, {file, line});
}
inline void __threadfence() {}
inline void __threadfence_block() {}

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, TRIREME_SITE) {
  using namespace trireme::emulator;  // NOLINT(google-build-using-namespace)
  const unsigned base = lane() & ~static_cast<unsigned>(width - 1);
  const unsigned from = base + (static_cast<unsigned>(source) & static_cast<unsigned>(width - 1));
  return from_lane<T>(meet(mask, value, {file, line}), from, {file, line});
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int change, int width = 32, TRIREME_SITE) {
  using namespace trireme::emulator;  // NOLINT(google-build-using-namespace)
  const unsigned from = lane() ^ static_cast<unsigned>(change);
  const Meeting meeting = meet(mask, value, {file, line});
  // A segment may read from itself and from those below it.
  if (from / static_cast<unsigned>(width) > lane() / static_cast<unsigned>(width)) return value;
  return from_lane<T>(meeting, from, {file, line});
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32, TRIREME_SITE) {
  using namespace trireme::emulator;  // NOLINT(google-build-using-namespace)
  const unsigned from = lane() + by;
  const Meeting meeting = meet(mask, value, {file, line});
  if (from / static_cast<unsigned>(width) != lane() / static_cast<unsigned>(width)) return value;
  return from_lane<T>(meeting, from, {file, line});
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32, TRIREME_SITE) {
  using namespace trireme::emulator;  // NOLINT(google-build-using-namespace)
  const Meeting meeting = meet(mask, value, {file, line});
  if (by > lane() % static_cast<unsigned>(width)) return value;
  return from_lane<T>(meeting, lane() - by, {file, line});
}
inline unsigned __ballot_sync(unsigned mask, int value, TRIREME_SITE) {
  using namespace trireme::emulator;  // NOLINT(google-build-using-namespace)
  const Meeting meeting = meet(mask, value != 0, {file, line});
  unsigned votes = 0;
  for (unsigned i = 0; i < 32; ++i) {
    if ((meeting.present >> i & 1) == 0) continue;
    votes |= static_cast<unsigned>(from_lane<bool>(meeting, i, {file, line})) << i;
  }
  return votes;
}
inline int __any_sync(unsigned mask, int value, TRIREME_SITE) {
  return __ballot_sync(mask, value, line, file) != 0;
}
inline int __all_sync(unsigned mask, int value, TRIREME_SITE) {
  return __ballot_sync(mask, !value, line, file) == 0;
}
#undef TRIREME_SITE
