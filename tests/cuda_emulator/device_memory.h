#pragma once
#include <cstddef>
#include <cstdint>
#include <map>

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

 private:
  DeviceMemory();
  void protect(int how) const;

  std::byte* base_;
  std::size_t reached_ = 0;  // everything above has never been taken
  std::size_t used_ = 0;
  std::map<std::size_t, std::size_t> blocks_;  // offset of the first guard: bytes asked for
  int accesses_ = 0;
};

}  // namespace trireme::emulator
