#pragma once
// Instead of the file of this name among the sources, which says what each function does.
#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>

#include "model/base/error.h"
#include "model/ops/cuda/wgmma.cuh"
#include "model/tensor/dtype.h"

namespace trireme::ops::cuda {

struct HeadBoxes {
  const void* first = nullptr;
  std::int64_t batch = 0, seq = 0, heads = 0, width = 0;
  int rows = 0;
};
inline HeadBoxes column_boxes(const void* first, std::int64_t matrices, std::int64_t rows,
                              std::int64_t columns, int box_rows) {
  return {first, matrices, rows, columns / kSwizzledRow, kSwizzledRow, box_rows};
}
struct TensorMap {
  HeadBoxes of;
};

template <class T>
TensorMap tensor_map_of(const HeadBoxes& boxes, int /*device*/) {
  static_assert(sizeof(T) == 2);
  require(reinterpret_cast<std::uintptr_t>(boxes.first) % 16 == 0 &&
              boxes.width % kSwizzledRow == 0 && boxes.rows <= 256,
          "a tensor map that no device takes");
  return {boxes};
}

inline void load_box(void* tile, const TensorMap& map, PhaseBarrier* barrier, int head, int row,
                     int batch, int line = __builtin_LINE()) {
  const HeadBoxes of = map.of;
  require(shared_address(tile) % kSwizzleBytes == 0, "a box at an address that is not aligned");
  const std::size_t bytes = static_cast<std::size_t>(of.rows * of.width) * 2;
  std::memset(tile, 0xff, bytes);
  const auto copy = [=] {
    for (std::int64_t column = 0; column < of.width; column += 8) {
      for (int r = 0; r < of.rows; ++r) {
        auto* const to = static_cast<std::byte*>(tile) + column / kSwizzledRow * of.rows * 128 +
                         r * 128 + ((column % kSwizzledRow / 8) ^ (r % 8)) * 16;
        const std::int64_t token = row + r;
        if (token < 0 || token >= of.seq || head >= of.heads) {
          std::memset(to, 0, 16);
          continue;
        }
        const std::int64_t from = ((batch * of.seq + token) * of.heads + head) * of.width + column;
        std::memcpy(to, static_cast<const std::byte*>(of.first) + 2 * from, 16);
      }
    }
    return bytes;
  };
  trireme::emulator::copy_before_phase_ends(barrier, copy, {__FILE__, line});
}

}  // namespace trireme::ops::cuda
