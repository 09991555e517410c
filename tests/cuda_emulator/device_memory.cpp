#include "tests/cuda_emulator/device_memory.h"

#include <sys/mman.h>
#include <ucontext.h>
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

std::size_t page_size() {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

bool is_write([[maybe_unused]] const void* context) {
#if defined(__x86_64__) && defined(__linux__)
  constexpr unsigned kWrite = 2;  // in a page fault's error code
  const auto* const at = static_cast<const ucontext_t*>(context);
  return (static_cast<unsigned>(at->uc_mcontext.gregs[REG_ERR]) & kWrite) != 0;
#else
  return false;
#endif
}

void tell_of_touch(int signal, siginfo_t* what, void* context) {
  if (DeviceMemory::get().counts_fault(what->si_addr, is_write(context))) return;
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
  const std::size_t bytes = (reached_ + page_size() - 1) / page_size() * page_size();
  require(bytes == 0 || ::mprotect(base_, bytes, how) == 0, "a device's memory cannot be guarded");
}

DeviceMemory::Access::Access() {
  if (get().accesses_++ == 0) get().protect(PROT_READ | PROT_WRITE);
}
DeviceMemory::Access::~Access() {
  if (--get().accesses_ == 0) get().protect(PROT_NONE);
}

DeviceMemory::KernelAccess::KernelAccess(std::uint64_t blocks) {
  DeviceMemory& memory = get();
  if (!memory.traffic_) return;
  memory.traffic_->most_blocks = std::max(memory.traffic_->most_blocks, blocks);
  memory.is_read_.assign(memory.reached_ / page_size() + 1, false);
  memory.protect(PROT_NONE);
}
DeviceMemory::KernelAccess::~KernelAccess() {
  DeviceMemory& memory = get();
  if (memory.is_read_.empty()) return;
  memory.is_read_.clear();
  memory.protect(PROT_READ | PROT_WRITE);
}

bool DeviceMemory::counts_fault(const void* at, bool writes) {
  if (is_read_.empty() || !holds(at)) return false;
  const std::size_t page =
      static_cast<std::size_t>(static_cast<const std::byte*>(at) - base_) / page_size();
  if (page >= is_read_.size() || (!writes && is_read_[page])) return false;
  (writes ? traffic_->written : traffic_->read) += page_size();
  if (!writes) is_read_[page] = true;
  const int how = writes ? PROT_READ | PROT_WRITE : PROT_READ;
  return ::mprotect(base_ + page * page_size(), page_size(), how) == 0;
}

void DeviceMemory::count(const void* read, const void* written, std::size_t bytes) {
  if (!traffic_) return;
  if (holds(read)) traffic_->read += bytes;
  if (holds(written)) traffic_->written += bytes;
}

bool TrafficCounter::is_available() {
#if defined(__x86_64__) && defined(__linux__)
  return true;
#else
  return false;
#endif
}
TrafficCounter::TrafficCounter() {
  DeviceMemory::get().count_traffic(&traffic_);
}
TrafficCounter::~TrafficCounter() {
  DeviceMemory::get().count_traffic(nullptr);
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
