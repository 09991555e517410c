#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "tests/cuda_emulator/traffic.h"

namespace trireme::emulator {

// The device's memory: a range of addresses that can be touched only while an Access lives.
// Whoever else touches it ends the process with a line that says so. A new block is full of
// 0xcb, and stands between guards that are looked at when it is freed.
class DeviceMemory {
 public:
  static DeviceMemory& get();

  std::byte* take(std::size_t bytes);  // null: full
  // False: no such block. Ends the process when something was written around it.
  bool give_back(std::byte* at);
  bool holds(const void* at) const;
  bool holds(const void* at, std::size_t bytes) const;
  std::size_t used() const { return used_; }
  static std::size_t size();
  // The blocks there are; frees all others, of whoever was abandoned.
  std::map<std::size_t, std::size_t> blocks() const { return blocks_; }
  void return_to(const std::map<std::size_t, std::size_t>& blocks);

  class Access {
   public:
    Access();
    ~Access();
    Access(const Access&) = delete;
    Access& operator=(const Access&) = delete;
  };

  void count_traffic(Traffic* into) { traffic_ = into; }  // null: no longer
  // Of a copy or fill; null: not in this memory.
  void count(const void* read, const void* written, std::size_t bytes);
  // A kernel's time: if traffic is counted, its first touch of each page is a fault.
  class KernelAccess {
   public:
    explicit KernelAccess(std::uint64_t blocks);
    ~KernelAccess();
    KernelAccess(const KernelAccess&) = delete;
    KernelAccess& operator=(const KernelAccess&) = delete;

   private:
    Access access_;
  };
  // Called for a fault; false: it has nothing to do with counting.
  bool counts_fault(const void* at, bool writes);

 private:
  DeviceMemory();
  void protect(int how) const;

  std::byte* base_;
  std::size_t reached_ = 0;  // everything above has never been taken
  std::size_t used_ = 0;
  std::map<std::size_t, std::size_t> blocks_;  // offset of the first guard: bytes asked for
  int accesses_ = 0;
  Traffic* traffic_ = nullptr;
  std::vector<bool> is_read_;  // of each page, while a kernel's traffic is counted
};

}  // namespace trireme::emulator
