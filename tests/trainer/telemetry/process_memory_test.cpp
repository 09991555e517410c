#include "trainer/telemetry/process_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

namespace trireme {
namespace {

TEST(ProcessMemory, the_peak_remembers_what_the_present_forgets) {
  const ProcessMemory before = process_memory();
  EXPECT_GT(before.resident_bytes, 0u);
  constexpr std::size_t kSize = 256u << 20;
  void* block = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(block, MAP_FAILED);
  std::memset(block, 1, kSize);
  const ProcessMemory during = process_memory();
  ::munmap(block, kSize);
  const ProcessMemory after = process_memory();
  // The kernel counts in batches per thread: allow a few megabytes.
  constexpr std::size_t kSlack = 8u << 20;
  EXPECT_GE(during.resident_bytes + kSlack, before.resident_bytes + kSize);
  EXPECT_LE(after.resident_bytes, during.resident_bytes - kSize + kSlack);
  EXPECT_GE(after.peak_bytes + kSlack, before.resident_bytes + kSize);
}

}  // namespace
}  // namespace trireme
