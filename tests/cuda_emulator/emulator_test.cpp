// What the emulator has to find out, so that a kernel which passes on it may be trusted on a GPU.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "model/device/copy.h"
#include "model/device/cuda/launch.cuh"
#include "model/device/cuda/shared.cuh"
#include "model/device/memory.h"
#include "tests/cuda_emulator/streams.h"

namespace trireme {
namespace {

// Ints on the device.
struct Ints {
  Stream& stream;
  Memory memory;
  Ints(Stream& on, std::size_t count) : stream(on), memory(count * sizeof(int), kCuda) {}
  int* data() const { return reinterpret_cast<int*>(memory.data()); }
  std::vector<int> values() const {
    std::vector<int> all(memory.bytes() / sizeof(int));
    copy_bytes(stream, reinterpret_cast<std::byte*>(all.data()), memory.data(), memory.bytes());
    stream.synchronize();
    return all;
  }
};

std::string failure_of(Stream& stream) {
  try {
    stream.synchronize();
  } catch (const EnvironmentError& error) {
    return error.what();
  }
  return "no failure";
}
void expect_failure(Stream& stream, const std::string& with) {
  const std::string said = failure_of(stream);
  EXPECT_NE(said.find(with), std::string::npos) << said;
}

// y = the sum of every block's threads' numbers, by a tree over shared memory.
__global__ void tree(int* y) {
  int* sums = cuda::dynamic_shared<int>();
  const auto i = threadIdx.x;
  sums[i] = static_cast<int>(blockIdx.x * blockDim.x + i);
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    __syncthreads();
    if (i < half) sums[i] += sums[i + half];
  }
  if (i == 0) y[blockIdx.x] = sums[0];
}

TEST(CudaEmulator, threads_of_a_block_meet_and_share) {
  Stream stream{kCuda};
  const Ints y(stream, 37);
  cuda::launch(tree, 37, 256, 256 * sizeof(int), stream, y.data());
  const std::vector<int> sums = y.values();
  for (int block = 0; block < 37; ++block) {
    EXPECT_EQ(sums[static_cast<std::size_t>(block)], 256 * (256 * block) + 255 * 128);
  }
}

__global__ void exchange(int* y) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int* mine = y + 5 * threadIdx.x;
  mine[0] = __shfl_xor_sync(~0u, lane, 5);
  mine[1] = __shfl_down_sync(~0u, lane, 3, 8);
  mine[2] = __shfl_up_sync(~0u, lane, 1);
  mine[3] = __shfl_sync(~0u, lane, 7);
  mine[4] = static_cast<int>(__ballot_sync(~0u, lane % 3 == 0));
}

TEST(CudaEmulator, lanes_of_a_warp_exchange_values) {
  Stream stream{kCuda};
  const Ints y(stream, 5 * 64);
  cuda::launch(exchange, 1, 64, 0, stream, y.data());
  const std::vector<int> got = y.values();
  for (int thread = 0; thread < 64; ++thread) {
    const int lane = thread % 32;
    const int* mine = got.data() + 5 * thread;
    EXPECT_EQ(mine[0], lane ^ 5);
    EXPECT_EQ(mine[1], lane % 8 + 3 < 8 ? lane + 3 : lane);
    EXPECT_EQ(mine[2], lane > 0 ? lane - 1 : 0);
    EXPECT_EQ(mine[3], 7);
    EXPECT_EQ(mine[4], 0x49249249);
  }
}

__global__ void some_stay_away() {
  if (threadIdx.x < 16) __syncthreads();
}
__global__ void two_barriers() {
  if (threadIdx.x < 16) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}
__global__ void asks_who_left(int* y) {
  if (threadIdx.x == 3) return;
  y[threadIdx.x] = __shfl_sync(~0u, static_cast<int>(threadIdx.x), 3);
}

TEST(CudaEmulator, threads_that_do_not_meet_are_found) {
  Stream stream{kCuda};
  cuda::launch(some_stay_away, 1, 64, 0, stream);
  expect_failure(stream, "left");
  cuda::launch(two_barriers, 1, 64, 0, stream);
  expect_failure(stream, "threads of one block wait at");
  const Ints y(stream, 32);
  cuda::launch(asks_who_left, 1, 32, 0, stream, y.data());
  expect_failure(stream, "gave nothing");
  // and the next kernel runs as if nothing had been
  const Ints sums(stream, 1);
  cuda::launch(tree, 1, 32, 32 * sizeof(int), stream, sums.data());
  EXPECT_EQ(sums.values()[0], 31 * 16);
}

__global__ void write(int* y, int at, int value) {
  y[at] = value;
}
struct Place {
  int* y;
};
__global__ void write_to(Place place) {
  *place.y = 1;
}

TEST(CudaEmulator, nothing_happens_before_somebody_waits) {
  Stream stream{kCuda};
  const Ints y(stream, 1);
  const Memory pinned = Memory::pinned(sizeof(int), kCuda);
  const auto* seen = reinterpret_cast<const int*>(pinned.data());
  cuda::launch(write, 1, 1, 0, stream, y.data(), 0, 5);
  copy_bytes(stream, pinned.data(), y.memory.data(), sizeof(int));
  EXPECT_EQ(*seen, 0);
  stream.synchronize();
  EXPECT_EQ(*seen, 5);
}

TEST(CudaEmulator, memory_of_the_wrong_side_is_found) {
  Stream stream{kCuda};
  int on_host = 0;
  EXPECT_THROW(cuda::launch(write, 1, 1, 0, stream, &on_host, 0, 1), EnvironmentError);
  EXPECT_THROW(cuda::launch(write_to, 1, 1, 0, stream, Place{&on_host}), EnvironmentError);
  const Ints y(stream, 1);
  EXPECT_DEATH(*y.data() = 1, "the host has touched a device's memory");
}

__global__ void write_shared(int at) {
  cuda::dynamic_shared<int>()[at] = 1;
}

TEST(CudaEmulator, writing_outside_is_found) {
  Stream stream{kCuda};
  EXPECT_DEATH(
      {
        const Ints y(stream, 4);
        cuda::launch(write, 1, 1, 0, stream, y.data(), 4, 1);
      },
      "outside a block of 16 bytes, at 16");
  EXPECT_DEATH(
      {
        cuda::launch(write_shared, 1, 1, 64, stream, 16);
        stream.synchronize();
      },
      "");
}

TEST(CudaEmulator, launches_that_no_device_takes_are_refused) {
  Stream stream{kCuda};
  EXPECT_THROW(cuda::launch(some_stay_away, 1, 1025, 0, stream), EnvironmentError);
  EXPECT_THROW(cuda::launch(some_stay_away, dim3(1, 65536), 32, 0, stream), EnvironmentError);
  EXPECT_THROW(cuda::launch(some_stay_away, 1, 32, std::size_t{1} << 20, stream), EnvironmentError);
  cuda::launch(some_stay_away, 0, 32, 0, stream);
  EXPECT_EQ(failure_of(stream), "no failure");
}

}  // namespace
}  // namespace trireme
