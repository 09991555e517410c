#pragma once
// Instead of the file of this name among the sources, which says what each function does.
#include <cuda_runtime.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <limits>
#include <utility>
#include <vector>

#include "model/base/error.h"
#include "model/ops/cuda/approximate.cuh"
#include "model/tensor/dtype.h"

namespace trireme::emulator {

inline constexpr unsigned kWholeWarp = 0xffffffffu;

// One of a pair of T.
template <class T>
float of_pair(std::uint32_t pair, int which) {
  T value;
  value.bits = static_cast<std::uint16_t>(pair >> 16 * which);
  return static_cast<float>(value);
}

inline void require_aligned(const void* at) {
  require(reinterpret_cast<std::uintptr_t>(at) % 16 == 0, "16 bytes at ", at, " are not aligned");
}

// The eight matrices' elements that ldmatrix gives a lane, 2-byte element by element.
inline void load_matrices(std::uint32_t (&to)[4], const void* row, bool transposed, Site site) {
  require_aligned(row);
  const Meeting meeting = meet(kWholeWarp, row, site);
  const unsigned g = lane() / 4, t = lane() % 4;
  for (unsigned matrix = 0; matrix < 4; ++matrix) {
    std::uint16_t pair[2];
    for (unsigned e = 0; e < 2; ++e) {
      const unsigned from_row = transposed ? 2 * t + e : g, column = transposed ? g : 2 * t + e;
      const auto* const start = from_lane<const std::byte*>(meeting, 8 * matrix + from_row, site);
      std::memcpy(&pair[e], start + 2 * column, 2);
    }
    to[matrix] = pair[0] | static_cast<std::uint32_t>(pair[1]) << 16;
  }
}

// What a thread copies in the background happens when it waits for it: as late as it may.
struct Copies {
  struct Copy {
    void* to;
    const void* from;  // null: zeros
  };
  std::vector<Copy> open;
  std::deque<std::vector<Copy>> groups;

  void finish(std::size_t under_way) {
    for (; groups.size() > under_way; groups.pop_front()) {
      for (const Copy& copy : groups.front()) {
        if (copy.from) {
          std::memcpy(copy.to, copy.from, 16);
        } else {
          std::memset(copy.to, 0, 16);
        }
      }
    }
  }
};

inline Copies& copies_of_thread() {
  static std::array<Copies, 1024> copies;
  return copies[threadIdx.x];
}

}  // namespace trireme::emulator

namespace trireme::ops::cuda {

template <class T>
void multiply(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1,
              int line = __builtin_LINE()) {
  using namespace trireme::emulator;  // NOLINT(google-build-using-namespace)
  const Site site{__FILE__, line};
  // Widened before they meet: each is read by eight lanes or four.
  struct Fragments {
    float a[8], b[4];
  };
  Fragments mine;
  for (int i = 0; i < 8; ++i) mine.a[i] = of_pair<T>(a[i / 2], i % 2);
  for (int i = 0; i < 4; ++i) mine.b[i] = of_pair<T>(i < 2 ? b0 : b1, i % 2);
  const Meeting meeting = meet(kWholeWarp, mine, site);
  const unsigned g = lane() / 4, t = lane() % 4;
  // Of rows g and g + 8, and of columns 2t and 2t + 1, whose terms four lanes have between them.
  const Fragments *rows[4], *first[4], *second[4];
  for (unsigned quad = 0; quad < 4; ++quad) {
    rows[quad] = &at_lane<Fragments>(meeting, 4 * g + quad, site);
    first[quad] = &at_lane<Fragments>(meeting, 8 * t + quad, site);
    second[quad] = &at_lane<Fragments>(meeting, 8 * t + 4 + quad, site);
  }
  for (int half = 0; half < 2; ++half) {
    for (int k = 0; k < 8; ++k) {
      const float *left = rows[k / 2]->a + 4 * half + k % 2, upper = left[0], lower = left[2];
      const int at = 2 * half + k % 2;
      c[0] += upper * first[k / 2]->b[at];
      c[1] += upper * second[k / 2]->b[at];
      c[2] += lower * first[k / 2]->b[at];
      c[3] += lower * second[k / 2]->b[at];
    }
  }
}

inline void load_matrices(std::uint32_t (&to)[4], const void* row, int line = __builtin_LINE()) {
  trireme::emulator::load_matrices(to, row, false, {__FILE__, line});
}
inline void load_matrices_transposed(std::uint32_t (&to)[4], const void* row,
                                     int line = __builtin_LINE()) {
  trireme::emulator::load_matrices(to, row, true, {__FILE__, line});
}

inline void start_copy(void* shared, const void* from, bool wanted) {
  trireme::emulator::require_aligned(shared);
  if (wanted) trireme::emulator::require_aligned(from);
  trireme::emulator::copies_of_thread().open.push_back({shared, wanted ? from : nullptr});
}
inline void close_copies() {
  auto& copies = trireme::emulator::copies_of_thread();
  copies.groups.push_back(std::move(copies.open));
  copies.open.clear();
}
template <int kUnderWay>
void wait_copies() {
  trireme::emulator::copies_of_thread().finish(kUnderWay);
}

template <class T>
std::uint32_t pack(float first, float second) {
  return T(first).bits | static_cast<std::uint32_t>(T(second).bits) << 16;
}

}  // namespace trireme::ops::cuda
