#pragma once
// Instead of the file of this name among the sources, which says what each function does.
#include <cuda_runtime.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "model/base/error.h"
#include "model/device/cuda/shared.cuh"
#include "model/ops/cuda/mma.cuh"

namespace trireme::emulator {

// Shared memory's addresses are the last 18 bits of the host's.
inline constexpr std::uintptr_t kSharedBits = 0x3ffff;

// A matrix in shared memory, as a descriptor says: swizzled by 128 bytes, `other` along its rows or
// columns, k along the other direction.
struct SharedMatrix {
  std::uintptr_t start = 0, leading = 0, stride = 0;
  bool across = false;

  SharedMatrix() = default;
  SharedMatrix(std::uint64_t descriptor, bool goes_across)
      : start((descriptor & 0x3fff) << 4),
        leading((descriptor >> 16 & 0x3fff) << 4),
        stride((descriptor >> 32 & 0x3fff) << 4),
        across(goes_across) {
    require(descriptor >> 62 == 1, "a descriptor of another layout than the 128-byte swizzle");
    require((descriptor >> 49 & 7) == 0, "a descriptor with a base offset");
  }

  template <class T>
  float at(unsigned other, unsigned k) const {
    std::uintptr_t address = start;
    if (across) {
      address += other / 64 * leading + k / 8 * stride + k % 8 * 128 + other % 64 * 2;
    } else {
      address += other / 8 * stride + other % 8 * 128 + k * 2;
    }
    address ^= (address >> 7 & 7) << 4;
    const std::byte* const base = dynamic_shared_memory();
    T value;
    std::memcpy(&value.bits,
                base + ((address - reinterpret_cast<std::uintptr_t>(base)) & kSharedBits), 2);
    return static_cast<float>(value);
  }
};

// A lane's part of a product under way: rows g and g + 8 of its warp's 16.
struct Product {
  float* sums = nullptr;
  unsigned columns = 0, first_row = 0;
  bool accumulate = false, from_shared = false;
  SharedMatrix left, right;
  float rows[2][16] = {};  // of the left matrix
  void (*finish)(Product&) = nullptr;
};

template <class T>
void finish_product(Product& product) {
  const unsigned g = lane() / 4, t = lane() % 4;
  for (unsigned r = 0; r < 2 && product.from_shared; ++r) {
    for (unsigned k = 0; k < 16; ++k)
      product.rows[r][k] = product.left.at<T>(product.first_row + g + 8 * r, k);
  }
  for (unsigned n = 0; n < product.columns / 8; ++n) {
    for (unsigned e = 0; e < 2; ++e) {
      float* const above = product.sums + 4 * n + e;
      float* const below = above + 2;
      if (!product.accumulate) *above = *below = 0;
      for (unsigned k = 0; k < 16; ++k) {
        const float right = product.right.at<T>(8 * n + 2 * t + e, k);
        *above += product.rows[0][k] * right;
        *below += product.rows[1][k] * right;
      }
    }
  }
}

// What a thread has started happens when it waits for it: as late as it may.
struct Products {
  std::vector<Product> open;
  std::deque<std::vector<Product>> groups;

  void finish(std::size_t under_way) {
    for (; groups.size() > under_way; groups.pop_front()) {
      for (Product& product : groups.front()) product.finish(product);
    }
  }
};

inline Products& products_of_thread() {
  static std::array<Products, 1024> products;
  return products[threadIdx.x];
}

// Copies of rows that a thread has started, which happen as late as they may.
inline std::vector<std::function<void()>>& rows_of_thread() {
  static std::array<std::vector<std::function<void()>>, 1024> rows;
  return rows[threadIdx.x];
}

template <class T, int N>
Product product_of(float (&c)[N / 2], std::uint64_t right, bool across, bool accumulate) {
  static_assert(N == 64 || N == 128);
  Product product;
  product.sums = c;
  product.columns = N;
  product.first_row = threadIdx.x / 32 % 4 * 16;
  product.accumulate = accumulate;
  product.right = SharedMatrix(right, across);
  product.finish = finish_product<T>;
  return product;
}

}  // namespace trireme::emulator

namespace trireme::ops::cuda {

inline bool has_warpgroups(int /*device*/) {
  return true;
}

inline int multiprocessors_of(int device) {
  int count = 0;
  cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
  return count;
}

inline constexpr int kWarpgroup = 128;
inline constexpr int kSwizzledRow = 64;
inline constexpr int kSwizzleBytes = 1024;
using PhaseBarrier = std::uint64_t;

inline std::uint32_t shared_address(const void* shared) {
  return reinterpret_cast<std::uintptr_t>(shared) & trireme::emulator::kSharedBits;
}

inline std::uint64_t along_rows(const void* tile) {
  return shared_address(tile) >> 4 | std::uint64_t{1} << 16 |
         std::uint64_t{kSwizzleBytes >> 4} << 32 | std::uint64_t{1} << 62;
}
inline std::uint64_t across_rows(const void* tile, int tile_bytes) {
  return shared_address(tile) >> 4 | static_cast<std::uint64_t>(tile_bytes >> 4) << 16 |
         std::uint64_t{kSwizzleBytes >> 4} << 32 | std::uint64_t{1} << 62;
}
constexpr std::uint64_t k_step(int i) {
  return static_cast<std::uint64_t>(i) * (32 >> 4);
}
constexpr std::uint64_t row_step(int i) {
  return static_cast<std::uint64_t>(i) * (16 * 128 >> 4);
}

template <class T, int N, bool kLeftAcross, bool kRightAcross>
void start_product(float (&c)[N / 2], std::uint64_t left, std::uint64_t right, bool accumulate,
                   int line = __builtin_LINE()) {
  using namespace trireme::emulator;  // NOLINT(google-build-using-namespace)
  meet(kWholeWarp, 0, {__FILE__, line});
  Product product = product_of<T, N>(c, right, kRightAcross, accumulate);
  product.from_shared = true;
  product.left = SharedMatrix(left, kLeftAcross);
  products_of_thread().open.push_back(product);
}

template <class T, int N, bool kRightAcross>
void start_product(float (&c)[N / 2], const std::uint32_t (&left)[4], std::uint64_t right,
                   bool accumulate, int line = __builtin_LINE()) {
  using namespace trireme::emulator;  // NOLINT(google-build-using-namespace)
  const Site site{__FILE__, line};
  Product product = product_of<T, N>(c, right, kRightAcross, accumulate);
  struct Fragments {
    std::uint32_t a[4];
  };
  const Meeting meeting = meet(kWholeWarp, Fragments{left[0], left[1], left[2], left[3]}, site);
  for (unsigned k = 0; k < 16; ++k) {
    const auto& given = at_lane<Fragments>(meeting, lane() / 4 * 4 + k % 8 / 2, site);
    for (unsigned r = 0; r < 2; ++r)
      product.rows[r][k] = of_pair<T>(given.a[k / 8 * 2 + r], static_cast<int>(k % 2));
  }
  products_of_thread().open.push_back(product);
}

template <class Registers>
void hold(Registers& /*registers*/) {}
inline void fence_products() {}
inline void commit_products() {
  auto& products = trireme::emulator::products_of_thread();
  products.groups.push_back(std::move(products.open));
  products.open.clear();
}
// The warp's lanes go on together: one may say for all that shared memory has been read.
template <int kUnderWay>
void wait_products(int line = __builtin_LINE()) {
  trireme::emulator::products_of_thread().finish(kUnderWay);
  trireme::emulator::meet(trireme::emulator::kWholeWarp, 0, {__FILE__, line});
}
template <int kUnderWay>
void wait_products_after(float a, float b, float2* scratch, int line = __builtin_LINE()) {
  *scratch = {a, b};
  wait_products<kUnderWay>(line);
}
inline void publish_writes() {}

inline void require_row(const void* to, const void* row, int bytes) {
  trireme::emulator::require_aligned(to);
  trireme::emulator::require_aligned(row);
  require(bytes % 16 == 0, bytes, " bytes of a row are not whole chunks of 16");
}
inline void store_row(void* to, const void* row, int bytes) {
  require_row(to, row, bytes);
  trireme::emulator::rows_of_thread().push_back(
      [=] { std::memcpy(to, row, static_cast<std::size_t>(bytes)); });
}
inline void add_row(float* to, const float* row, int bytes) {
  require_row(to, row, bytes);
  trireme::emulator::rows_of_thread().push_back([=] {
    for (int i = 0; i < bytes / 4; ++i) to[i] += row[i];
  });
}
inline void wait_rows() {
  for (const auto& write : trireme::emulator::rows_of_thread()) write();
  trireme::emulator::rows_of_thread().clear();
}
inline int computed_again(int value) {
  return value;
}
template <int kCount>
void take_registers() {}
template <int kCount>
void give_registers() {}

inline void sync_named(int id, int threads, int line = __builtin_LINE()) {
  trireme::emulator::come_to_barrier(static_cast<unsigned>(id), static_cast<unsigned>(threads),
                                     true, {__FILE__, line});
}
inline void arrive_named(int id, int threads, int line = __builtin_LINE()) {
  trireme::emulator::come_to_barrier(static_cast<unsigned>(id), static_cast<unsigned>(threads),
                                     false, {__FILE__, line});
}
inline void start_barrier(PhaseBarrier* barrier, int arrivals) {
  trireme::emulator::start_phases(barrier, static_cast<unsigned>(arrivals));
}
inline void publish_barriers() {}
inline void arrive(PhaseBarrier* barrier, int line = __builtin_LINE()) {
  trireme::emulator::arrive_at_phase(barrier, 0, {__FILE__, line});
}
inline void arrive_expecting(PhaseBarrier* barrier, int bytes, int line = __builtin_LINE()) {
  trireme::emulator::arrive_at_phase(barrier, static_cast<std::size_t>(bytes), {__FILE__, line});
}
inline void wait_phase(PhaseBarrier* barrier, int parity, int line = __builtin_LINE()) {
  trireme::emulator::wait_for_phase(barrier, static_cast<unsigned>(parity), {__FILE__, line});
}

}  // namespace trireme::ops::cuda
