#include "model/ops/table_copy.h"

#include <cstring>

#include "model/device/cpu/threads.h"
#include "model/ops/cpu/kernels.h"

namespace trireme::ops::cpu {

void copy_columns(Stream&, const Columns& to, const Columns& from, std::int64_t width) {
  const auto size = static_cast<std::int64_t>(size_of(to.table.dtype));
  trireme::cpu::parallel_for(
      to.table.rows(), row_grain(width), [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t row = first; row < last; ++row) {
          std::memcpy(to.table.data + (row * to.table.width() + to.first) * size,
                      from.table.data + (row * from.table.width() + from.first) * size,
                      static_cast<std::size_t>(width * size));
        }
      });
}

}  // namespace trireme::ops::cpu
