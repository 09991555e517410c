// Warpgroup products and copies of boxes, against plain loops.
#include "model/ops/cuda/wgmma.cuh"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "model/device/copy.h"
#include "model/device/cuda/launch.cuh"
#include "model/device/cuda/shared.cuh"
#include "model/device/memory.h"
#include "model/ops/cuda/tensor_map.cuh"

namespace trireme::ops::cuda {
namespace {

constexpr int kRows = 64, kColumns = 128, kTerms = 64;
constexpr int kTile = 64 * kSwizzledRow;

template <class T>
class OnDevice {
 public:
  OnDevice(Stream& stream, std::size_t count)
      : stream_(stream), memory_(count * sizeof(T), kCuda) {}
  OnDevice(Stream& stream, const std::vector<T>& values) : OnDevice(stream, values.size()) {
    copy_bytes(stream, memory_.data(), reinterpret_cast<const std::byte*>(values.data()),
               memory_.bytes());
    stream.synchronize();
  }
  T* data() const { return reinterpret_cast<T*>(memory_.data()); }
  std::vector<T> values() const {
    std::vector<T> all(memory_.bytes() / sizeof(T));
    copy_bytes(stream_, reinterpret_cast<std::byte*>(all.data()), memory_.data(), memory_.bytes());
    stream_.synchronize();
    return all;
  }

 private:
  Stream& stream_;
  Memory memory_;
};

// Rows of 64 of `from` as a swizzled tile.
template <class T>
__device__ void fill_tile(T* tile, const T* from, int stride) {
  for (int i = static_cast<int>(threadIdx.x); i < kTile; i += kWarpgroup) {
    const int row = i / kSwizzledRow, column = i % kSwizzledRow;
    tile[row * kSwizzledRow + ((column / 8 ^ row % 8) << 3) + column % 8] =
        from[row * stride + column];
  }
}

// c [64, 128] = left [64, 64] right [64, 128], twice accumulated; each matrix is given with k along
// its rows, or across them.
template <class T, bool kLeftAcross, bool kRightAcross>
__global__ void twice(float* c, const T* left, const T* right) {
  T* const shared = trireme::cuda::dynamic_shared<T>();
  T* const left_tile =
      shared + (kSwizzleBytes - shared_address(shared) % kSwizzleBytes) % kSwizzleBytes / sizeof(T);
  T* const right_tiles = left_tile + kTile;
  fill_tile(left_tile, left, kTerms);
  for (int i = 0; i < 2; ++i) {
    fill_tile(right_tiles + i * kTile, kRightAcross ? right + 64 * i : right + i * kTile,
              kRightAcross ? kColumns : kTerms);
  }
  publish_writes();
  __syncthreads();
  float sums[kColumns / 2];
  fence_products();
  const std::uint64_t a = kLeftAcross ? across_rows(left_tile, 0) : along_rows(left_tile);
  const std::uint64_t b =
      kRightAcross ? across_rows(right_tiles, 2 * kTile) : along_rows(right_tiles);
  for (int i = 0; i < 8; ++i) {
    start_product<T, kColumns, kLeftAcross, kRightAcross>(
        sums, a + (kLeftAcross ? row_step(i % 4) : k_step(i % 4)),
        b + (kRightAcross ? row_step(i % 4) : k_step(i % 4)), i > 0);
  }
  commit_products();
  wait_products<0>();
  hold(sums);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int i = 0; i < kColumns / 2; ++i) {
    const int row = static_cast<int>(threadIdx.x) / 32 * 16 + lane / 4 + i % 4 / 2 * 8;
    c[row * kColumns + i / 4 * 8 + lane % 4 * 2 + i % 2] = sums[i];
  }
}

template <class T>
std::vector<T> small_numbers(int count, int seed) {
  std::vector<T> all;
  for (int i = 0; i < count; ++i) all.push_back(T(static_cast<float>((i * 37 + seed) % 31 - 15)));
  return all;
}

template <class T, bool kLeftAcross, bool kRightAcross>
void expect_twice() {
  SCOPED_TRACE(::testing::Message() << kLeftAcross << " " << kRightAcross);
  Stream stream{kCuda};
  const auto a = small_numbers<T>(kRows * kTerms, 3), b = small_numbers<T>(kTerms * kColumns, 11);
  const OnDevice<T> left(stream, a), right(stream, b);
  const OnDevice<float> c(stream, kRows * kColumns);
  trireme::cuda::launch(twice<T, kLeftAcross, kRightAcross>, 1, kWarpgroup,
                        kSwizzleBytes + 3 * kTile * sizeof(T), stream, c.data(), left.data(),
                        right.data());
  const std::vector<float> got = c.values();
  for (int row = 0; row < kRows; ++row) {
    for (int column = 0; column < kColumns; ++column) {
      float sum = 0;
      for (int k = 0; k < kTerms; ++k) {
        sum += static_cast<float>(a[kLeftAcross ? k * kRows + row : row * kTerms + k]) *
               static_cast<float>(b[kRightAcross ? k * kColumns + column : column * kTerms + k]);
      }
      ASSERT_EQ(got[row * kColumns + column], 2 * sum) << row << " " << column;
    }
  }
}

TEST(WarpgroupProduct, IsThatOfLoopsInEveryLayout) {
  expect_twice<Bf16, false, false>();
  expect_twice<Bf16, false, true>();
  expect_twice<Bf16, true, false>();
  expect_twice<Bf16, true, true>();
  expect_twice<F16, true, true>();
}

// One box of a head, unswizzled, [rows, width]; the first thread copies, and only half of the
// threads wait if so said.
__global__ void copy_box(Bf16* to, const __grid_constant__ TensorMap map, int head, int row,
                         int batch, int rows, int width, bool waits) {
  auto* const shared = trireme::cuda::dynamic_shared<unsigned char>();
  auto* const tile = reinterpret_cast<Bf16*>(
      shared + (kSwizzleBytes - shared_address(shared) % kSwizzleBytes) % kSwizzleBytes);
  auto* const barrier = reinterpret_cast<PhaseBarrier*>(tile + rows * width);
  if (threadIdx.x == 0) {
    start_barrier(barrier, 1);
    publish_barriers();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    arrive_expecting(barrier, rows * width * 2);
    load_box(tile, map, barrier, head, row, batch);
  }
  if (!waits) return;
  wait_phase(barrier, 0);
  for (int i = static_cast<int>(threadIdx.x); i < rows * width; i += kWarpgroup) {
    const int at = i / width, column = i % width;
    to[i] =
        tile[column / 64 * rows * 64 + at * 64 + ((column % 64 / 8 ^ at % 8) << 3) + column % 8];
  }
}

// The last thread loads a box of 64 columns after all others wait for it, and writes its second row
// to `to` or adds it there.
__global__ void store_or_add(float* to, const __grid_constant__ TensorMap map, int column,
                             bool adds) {
  auto* const shared = trireme::cuda::dynamic_shared<unsigned char>();
  auto* const tile = reinterpret_cast<Bf16*>(
      shared + (kSwizzleBytes - shared_address(shared) % kSwizzleBytes) % kSwizzleBytes);
  auto* const row = reinterpret_cast<float*>(tile + 8 * kSwizzledRow);
  auto* const barrier = reinterpret_cast<PhaseBarrier*>(row + kSwizzledRow);
  if (threadIdx.x == 0) {
    start_barrier(barrier, 1);
    publish_barriers();
  }
  __syncthreads();
  if (threadIdx.x == kWarpgroup - 1) {
    arrive_expecting(barrier, 8 * kSwizzledRow * 2);
    load_box(tile, map, barrier, column, 0, 0);
    return;
  }
  wait_phase(barrier, 0);
  if (threadIdx.x != 0) return;
  for (int i = 0; i < kSwizzledRow; ++i)
    row[i] = static_cast<float>(tile[kSwizzledRow + ((i / 8 ^ 1) << 3) + i % 8]);
  publish_writes();
  if (adds) {
    add_row(to, row, kSwizzledRow * 4);
  } else {
    store_row(to, row, kSwizzledRow * 4);
  }
  wait_rows();
}

TEST(TensorMap, ColumnsBeyondTheLastAreZerosAndRowsAreStoredOrAdded) {
  constexpr int kMatrixRows = 8, kMatrixColumns = 2 * kSwizzledRow;
  Stream stream{kCuda};
  const auto values = small_numbers<Bf16>(kMatrixRows * kMatrixColumns, 5);
  const OnDevice<Bf16> matrix(stream, values);
  const OnDevice<float> row(stream, kSwizzledRow);
  const TensorMap map = tensor_map_of<Bf16>(
      column_boxes(matrix.data(), 1, kMatrixRows, kMatrixColumns, kMatrixRows), 0);
  const auto add = [&](int column, bool adds) {
    trireme::cuda::launch(store_or_add, 1, kWarpgroup, 4 * kSwizzleBytes, stream, row.data(), map,
                          column, adds);
  };
  add(0, false);
  add(1, true);
  add(2, true);
  const std::vector<float> got = row.values();
  for (int i = 0; i < kSwizzledRow; ++i) {
    const int at = kMatrixColumns + i;
    EXPECT_EQ(got[i],
              static_cast<float>(values[at]) + static_cast<float>(values[at + kSwizzledRow]));
  }
}

TEST(TensorMap, GivesBoxesOfAHeadAndZerosBeyondTheSequence) {
  constexpr int kBatch = 2, kSeq = 50, kHeads = 3, kWidth = 128, kBox = 32;
  Stream stream{kCuda};
  const auto values = small_numbers<Bf16>(kBatch * kSeq * kHeads * kWidth, 5);
  const OnDevice<Bf16> tensor(stream, values), out(stream, kBox * kWidth);
  const TensorMap map = tensor_map_of<Bf16>({.first = tensor.data(),
                                             .batch = kBatch,
                                             .seq = kSeq,
                                             .heads = kHeads,
                                             .width = kWidth,
                                             .rows = kBox},
                                            0);
  const auto copy = [&](int row, bool waits) {
    trireme::cuda::launch(copy_box, 1, kWarpgroup, 2 * kSwizzleBytes + kBox * kWidth * 2, stream,
                          out.data(), map, 2, row, 1, kBox, kWidth, waits);
  };
  for (const int first : {0, 7, 32}) {
    copy(first, true);
    const std::vector<Bf16> got = out.values();
    for (int row = 0; row < kBox; ++row) {
      for (int i = 0; i < kWidth; ++i) {
        const int token = first + row;
        const int from = ((kSeq + token) * kHeads + 2) * kWidth + i;
        ASSERT_EQ(got[row * kWidth + i].bits, token < kSeq ? values[from].bits : 0) << row << i;
      }
    }
  }
  copy(0, false);
  try {
    stream.synchronize();
    FAIL() << "the kernel ended before a copy to shared memory did";
  } catch (const EnvironmentError& error) {
    EXPECT_NE(std::string(error.what()).find("no thread has waited for a copy"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace trireme::ops::cuda
