#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "model/base/error.h"
#include "model/device/copy.h"
#include "model/device/devices.h"
#include "model/device/event.h"
#include "model/device/memory.h"

namespace trireme {
namespace {

constexpr Device kCuda{Device::Kind::kCuda, 0};

// Every device present; of CUDA's the first.
std::vector<Device> devices() {
  std::vector<Device> all{Device{}};
  if (cuda_devices().count > 0) all.push_back(kCuda);
  return all;
}

std::vector<std::byte> counted(std::size_t bytes) {
  std::vector<std::byte> values(bytes);
  for (std::size_t i = 0; i < bytes; ++i) values[i] = static_cast<std::byte>(i * 7);
  return values;
}

TEST(Memory, StartsZeroedOnEveryDevice) {
  for (const Device device : devices()) {
    Stream stream(device);
    const Memory memory(5000, device);
    std::vector<std::byte> seen(memory.bytes(), std::byte{1});
    copy_bytes(stream, seen.data(), memory.data(), memory.bytes());
    stream.synchronize();
    EXPECT_EQ(seen, std::vector<std::byte>(5000)) << say(device);
  }
}

TEST(Memory, MovesAndIsFreedOnce) {
  Memory first(64, Device{});
  std::byte* const data = first.data();
  Memory second = std::move(first);
  EXPECT_EQ(second.data(), data);
  Memory third;
  third = std::move(second);
  EXPECT_EQ(third.data(), data);
  EXPECT_EQ(third.bytes(), 64u);
}

TEST(Copy, GoesFromTheHostToADeviceAndBack) {
  for (const Device device : devices()) {
    constexpr std::size_t kBytes = 100'003;
    Stream stream(device, Stream::Priority::kUrgent);
    const Memory there(kBytes, device), also_there(kBytes, device);
    const Memory here = Memory::pinned(kBytes, device);
    const std::vector<std::byte> values = counted(kBytes);
    std::memcpy(here.data(), values.data(), kBytes);
    copy_bytes(stream, there.data(), here.data(), kBytes);
    copy_bytes(stream, also_there.data(), there.data(), kBytes);
    fill_bytes(stream, there.data(), 0xa5, kBytes);
    copy_bytes(stream, here.data(), also_there.data(), kBytes);
    stream.synchronize();
    EXPECT_TRUE(std::equal(values.begin(), values.end(), here.data())) << say(device);
    copy_bytes(stream, here.data(), there.data(), kBytes);
    stream.synchronize();
    EXPECT_EQ(std::count(here.data(), here.data() + kBytes, std::byte{0xa5}), kBytes);
  }
}

TEST(Copy, DoesNothingOnAPlanningStream) {
  Tally tally;
  Stream planning(kCuda, tally);
  std::byte one{1};
  const std::byte two{2};
  copy_bytes(planning, &one, &two, 1);
  fill_bytes(planning, &one, 3, 1);
  planning.synchronize();
  EXPECT_EQ(one, std::byte{1});
}

TEST(Event, OrdersTwoStreamsAndMeasuresTime) {
  for (const Device device : devices()) {
    constexpr std::size_t kBytes = std::size_t{16} << 20;
    Stream first(device), second(device);
    Event start(device, Event::Use::kTiming), done(device, Event::Use::kTiming);
    const Memory there(kBytes, device);
    std::vector<std::byte> seen(kBytes);
    start.record(first);
    fill_bytes(first, there.data(), 7, kBytes);
    done.record(first);
    done.make_wait(second);
    copy_bytes(second, seen.data(), there.data(), kBytes);
    second.synchronize();
    EXPECT_TRUE(done.is_done());
    done.synchronize();
    EXPECT_EQ(std::count(seen.begin(), seen.end(), std::byte{7}), kBytes) << say(device);
    EXPECT_GT(done.milliseconds_since(start), 0);
    EXPECT_LT(done.milliseconds_since(start), 60'000);
  }
}

TEST(Devices, SaysWhyThereIsNone) {
  const CudaDevices& found = cuda_devices();
  EXPECT_EQ(found.count == 0, !found.reason.empty());
  if (found.count > 0) GTEST_SKIP() << "there are " << found.count;
  const auto message = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const EnvironmentError& error) {
      return error.what();
    }
    return "no error";
  };
  const std::string expected = "cuda:0: " + found.reason;
  EXPECT_EQ(message([] { Memory(1, kCuda); }), expected);
  EXPECT_EQ(message([] { Memory::pinned(1, kCuda); }), expected);
  EXPECT_EQ(message([] { Stream{kCuda}; }), expected);
  EXPECT_EQ(message([] { Event{kCuda}; }), expected);
  EXPECT_EQ(message([] { properties_of(kCuda); }), expected);
}

TEST(Devices, RefusesOneBeyondTheLast) {
  if (cuda_devices().count == 0) GTEST_SKIP() << cuda_devices().reason;
  const Device beyond{Device::Kind::kCuda, cuda_devices().count};
  EXPECT_THROW(Memory(1, beyond), EnvironmentError);
  const DeviceProperties first = properties_of(kCuda);
  EXPECT_FALSE(first.name.empty());
  EXPECT_FALSE(first.bus_id.empty());
  EXPECT_GT(first.memory_bytes, first.free_bytes);
}

}  // namespace
}  // namespace trireme
