#include "model/base/human.h"

#include <gtest/gtest.h>

#include <limits>

namespace trireme {
namespace {

TEST(Human, bytes) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1024), "1.00 KiB");
  EXPECT_EQ(human_bytes(1024 * 1024 - 1), "1.00 MiB");
  EXPECT_EQ(human_bytes(std::uint64_t{562} << 10), "562 KiB");
  EXPECT_EQ(human_bytes(41606 << 10), "40.6 MiB");
  EXPECT_EQ(human_bytes(std::uint64_t{1023} << 20), "1023 MiB");
  EXPECT_EQ(human_bytes(std::uint64_t{139} << 30), "139 GiB");
  EXPECT_EQ(human_bytes(std::numeric_limits<std::uint64_t>::max()), "16.0 EiB");
}

TEST(Human, counts) {
  EXPECT_EQ(human_count(0), "0");
  EXPECT_EQ(human_count(999.4), "999");
  EXPECT_EQ(human_count(999.6), "1.00k");
  EXPECT_EQ(human_count(124439808), "124M");
  EXPECT_EQ(human_count(999999), "1.00M");
  EXPECT_EQ(human_count(-1.5e12), "-1.50T");
  EXPECT_EQ(human_count(1e18), "1000000T");
  EXPECT_EQ(human_count(std::numeric_limits<double>::infinity()), "inf");
}

TEST(Human, counted_things_are_one_or_many) {
  EXPECT_EQ(counted(1, "micro-batch"), "1 micro-batch");
  EXPECT_EQ(counted(2, "micro-batch"), "2 micro-batches");
  EXPECT_EQ(counted(0, "thread"), "0 threads");
  EXPECT_EQ(counted(1, "thread"), "1 thread");
}

TEST(Human, durations) {
  EXPECT_EQ(human_duration(0.0124), "12 ms");
  EXPECT_EQ(human_duration(0.9999), "1.0 s");
  EXPECT_EQ(human_duration(59.99), "1m00s");
  EXPECT_EQ(human_duration(3599.6), "1h00m");
  EXPECT_EQ(human_duration(86399), "1d00h");
  EXPECT_EQ(human_duration(2 * 86400 + 4 * 3600), "2d04h");
  EXPECT_EQ(human_duration(-1), "?");
  EXPECT_EQ(human_duration(std::numeric_limits<double>::quiet_NaN()), "?");
}

TEST(Human, grouped_digits) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(-999), "-999");
  EXPECT_EQ(grouped(-1000), "-1,000");
  EXPECT_EQ(grouped(1234567), "1,234,567");
  EXPECT_EQ(grouped(std::numeric_limits<std::int64_t>::min()), "-9,223,372,036,854,775,808");
}

}  // namespace
}  // namespace trireme
