#include "tests/cuda_emulator/device_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "model/base/error.h"

namespace trireme::emulator {
namespace {

constexpr std::size_t kSize = std::size_t{8} << 30;
constexpr std::size_t kGuard = 256;
constexpr int kGuardByte = 0x5c, kNewByte = 0xcb;

std::size_t room_for(std::size_t bytes) {
  return (bytes + kGuard - 1) / kGuard * kGuard + 2 * kGuard;
}

void tell_of_touch(int signal, siginfo_t* what, void*) {
  if (DeviceMemory::get().holds(what->si_addr)) {
    constexpr char kSaid[] = "the host has touched a device's memory\n";
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kSaid, sizeof(kSaid) - 1);
  }
  std::signal(signal, SIG_DFL);  // and the same again, for whoever debugs
}

}  // namespace

DeviceMemory& DeviceMemory::get() {
  static DeviceMemory memory;
  return memory;
}

DeviceMemory::DeviceMemory() {
  void* base =
      ::mmap(nullptr, kSize, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require(base != MAP_FAILED, "no addresses for a device's memory");
  base_ = static_cast<std::byte*>(base);
  struct sigaction action {};
  action.sa_sigaction = tell_of_touch;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGSEGV, &action, nullptr);
}

std::size_t DeviceMemory::size() {
  return kSize;
}

void DeviceMemory::protect(int how) const {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t bytes = (reached_ + page - 1) / page * page;
  require(bytes == 0 || ::mprotect(base_, bytes, how) == 0, "a device's memory cannot be guarded");
}

DeviceMemory::Access::Access() {
  if (get().accesses_++ == 0) get().protect(PROT_READ | PROT_WRITE);
}
DeviceMemory::Access::~Access() {
  if (--get().accesses_ == 0) get().protect(PROT_NONE);
}

std::byte* DeviceMemory::take(std::size_t bytes) {
  const std::size_t room = room_for(bytes);
  std::size_t at = 0;
  for (const auto& [taken, size] : blocks_) {  // in order of their places
    if (at + room <= taken) break;
    at = taken + room_for(size);
  }
  if (at + room > kSize) return nullptr;
  blocks_[at] = bytes;
  used_ += bytes;
  if (at + room > reached_) {
    reached_ = at + room;
    if (accesses_ > 0) protect(PROT_READ | PROT_WRITE);
  }
  const Access access;
  std::memset(base_ + at, kGuardByte, room);
  std::memset(base_ + at + kGuard, kNewByte, bytes);
  return base_ + at + kGuard;
}

bool DeviceMemory::give_back(std::byte* at) {
  const auto found = blocks_.find(static_cast<std::size_t>(at - base_) - kGuard);
  if (found == blocks_.end()) return false;
  const auto [first, bytes] = *found;
  const Access access;
  for (std::size_t i = 0; i < room_for(bytes); ++i) {
    if (i >= kGuard && i < kGuard + bytes) continue;
    if (base_[first + i] == std::byte{kGuardByte}) continue;
    std::fprintf(stderr, "a kernel has written outside a block of %zu bytes, at %td\n", bytes,
                 static_cast<std::ptrdiff_t>(i) - static_cast<std::ptrdiff_t>(kGuard));
    std::abort();
  }
  used_ -= bytes;
  blocks_.erase(found);
  return true;
}

void DeviceMemory::return_to(const std::map<std::size_t, std::size_t>& blocks) {
  blocks_ = blocks;
  used_ = 0;
  for (const auto& block : blocks_) used_ += block.second;
}

bool DeviceMemory::holds(const void* at) const {
  return at >= base_ && at < base_ + kSize;
}

bool DeviceMemory::holds(const void* at, std::size_t bytes) const {
  if (!holds(at)) return false;
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(at) - base_);
  auto next = blocks_.upper_bound(offset);
  if (next == blocks_.begin()) return false;
  --next;
  const std::size_t first = next->first + kGuard;
  return offset >= first && offset + bytes <= first + next->second;
}

}  // namespace trireme::emulator
