#include "model/ops/embedding.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#define HWY_TARGET_INCLUDE "model/ops/cpu/embedding.cpp"
#include "model/ops/cpu/simd/targets.h"
// Below, once per target.
#include "model/device/cpu/threads.h"
#include "model/ops/cpu/simd/elementwise.h"
#include "model/ops/tokens_by_id.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::ops::cpu {
namespace HWY_NAMESPACE {
namespace {

using trireme::cpu::parallel_for;

// The table row of a token; -1 if it is on another rank.
HWY_INLINE std::int64_t row_of(std::int32_t id, std::int64_t first, std::int64_t rows) {
  const std::int64_t row = id - first;
  return row >= 0 && row < rows ? row : -1;
}

void sort_by_id(const TokensById& room, Tensor ids, std::int64_t first, std::int64_t rows) {
  std::int32_t* starts = room.starts.as<std::int32_t>();
  std::int32_t* order = room.order.as<std::int32_t>();
  const std::int32_t* id = ids.as<std::int32_t>();
  std::fill(starts, starts + rows + 1, 0);
  for (std::int64_t token = 0; token < ids.count(); ++token) {
    const std::int64_t row = row_of(id[token], first, rows);
    if (row >= 0) ++starts[row];
  }
  // Backwards, so that each row's end becomes its start and tokens keep their order.
  std::partial_sum(starts, starts + rows + 1, starts);
  for (std::int64_t token = ids.count() - 1; token >= 0; --token) {
    const std::int64_t row = row_of(id[token], first, rows);
    if (row >= 0) order[--starts[row]] = static_cast<std::int32_t>(token);
  }
}

void embedding(Tensor y, Tensor table, Tensor ids, std::int64_t first, Accumulate accumulate) {
  const std::int64_t width = y.width(), rows = table.rows();
  with_float(y.dtype, [&]<class T>(T) {
    const std::size_t bytes = static_cast<std::size_t>(width) * sizeof(T);
    parallel_for(ids.count(), row_grain(width), [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t token = from; token < to; ++token) {
        const std::int64_t row = row_of(ids.as<std::int32_t>()[token], first, rows);
        T* out = at<T>(y, token * width);
        if (accumulate == Accumulate::kReplace && row < 0) {
          std::fill_n(out, width, T{});
        } else if (accumulate == Accumulate::kReplace) {
          std::memcpy(out, at<T>(table, row * width), bytes);
        } else if (row >= 0) {
          add_range(out, out, at<T>(table, row * width), width);
        }
      }
    });
  });
}

void embedding_backward(const TokensById& room, Tensor dtable, Tensor dy, Tensor ids,
                        std::int64_t first, Accumulate accumulate) {
  const std::int64_t width = dtable.width(), rows = dtable.rows();
  sort_by_id(room, ids, first, rows);
  const std::int32_t* starts = room.starts.as<std::int32_t>();
  const std::int32_t* order = room.order.as<std::int32_t>();
  with_float(dy.dtype, [&]<class T>(T) {
    using A = Accumulator<T>;
    const auto add_row = [&](std::int64_t row) {
      A* out = at<A>(dtable, row * width);
      std::int32_t next = starts[row];
      if (accumulate == Accumulate::kReplace && next == starts[row + 1]) {
        std::memset(out, 0, static_cast<std::size_t>(width) * sizeof(A));
      } else if (accumulate == Accumulate::kReplace) {
        cast_range(out, at<T>(dy, order[next++] * width), width);
      }
      for (; next < starts[row + 1]; ++next) {
        accumulate_range(out, at<T>(dy, order[next] * width), width);
      }
    };
    // A row and a token each count as one unit of work, since ids are unevenly distributed. Row r
    // begins at unit r + starts[r].
    const auto row_from = [&](std::int64_t unit) {
      std::int64_t low = 0, high = rows;
      while (low < high) {
        const std::int64_t middle = (low + high) / 2;
        if (middle + starts[middle] < unit) {
          low = middle + 1;
        } else {
          high = middle;
        }
      }
      return low;
    };
    parallel_for(rows + starts[rows], row_grain(width), [&](std::int64_t from, std::int64_t to) {
      const std::int64_t last = row_from(to);
      for (std::int64_t row = row_from(from); row < last; ++row) add_row(row);
    });
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace trireme::ops::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::ops::cpu {

HWY_EXPORT(embedding);
HWY_EXPORT(embedding_backward);

void embedding(Stream&, Tensor y, Tensor table, Tensor ids, std::int64_t first,
               Accumulate accumulate) {
  HWY_DYNAMIC_DISPATCH(embedding)(y, table, ids, first, accumulate);
}
void embedding_backward(Stream&, const TokensById& room, Tensor dtable, Tensor dy, Tensor ids,
                        std::int64_t first, Accumulate accumulate) {
  HWY_DYNAMIC_DISPATCH(embedding_backward)(room, dtable, dy, ids, first, accumulate);
}

}  // namespace trireme::ops::cpu
#endif
