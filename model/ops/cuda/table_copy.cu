#include "model/ops/table_copy.h"

#include "model/ops/cuda/flat.cuh"

namespace trireme::ops::cuda {
namespace {

using trireme::cuda::launch;

// Distances between rows in words.
struct ColumnsOf {
  std::int64_t first = 0, row = 0;
};

template <class Word>
__global__ __launch_bounds__(kFlatThreads) void copy_kernel(Word* to, ColumnsOf there,
                                                            const Word* from, ColumnsOf here,
                                                            std::int64_t count,
                                                            std::int64_t width) {
  over_flat<1>(count, [&]<int n>(Count<n>, std::int64_t i) {
    const std::int64_t row = i / width, column = i % width;
    to[row * there.row + there.first + column] = from[row * here.row + here.first + column];
  });
}

template <class Word>
void copy_words(Stream& stream, const Columns& to, const Columns& from, std::int64_t width) {
  const auto size = static_cast<std::int64_t>(size_of(to.table.dtype));
  const auto words = [&](std::int64_t elements) {
    return elements * size / static_cast<std::int64_t>(sizeof(Word));
  };
  const std::int64_t each = words(width), count = to.table.rows() * each;
  launch(copy_kernel<Word>, flat_blocks<1>(count), kFlatThreads, 0, stream,
         reinterpret_cast<Word*>(to.table.data),
         ColumnsOf{words(to.first), words(to.table.width())},
         reinterpret_cast<const Word*>(from.table.data),
         ColumnsOf{words(from.first), words(from.table.width())}, count, each);
}

}  // namespace

void copy_columns(Stream& stream, const Columns& to, const Columns& from, std::int64_t width) {
  if (to.table.rows() * width == 0) return;
  // Of addresses, and of all distances in bytes.
  const auto size = static_cast<std::int64_t>(size_of(to.table.dtype));
  std::uintptr_t bits = reinterpret_cast<std::uintptr_t>(to.table.data) |
                        reinterpret_cast<std::uintptr_t>(from.table.data);
  for (const std::int64_t elements :
       {width, to.first, to.table.width(), from.first, from.table.width()}) {
    bits |= static_cast<std::uintptr_t>(elements * size);
  }
  if (bits % sizeof(uint4) == 0) {
    copy_words<uint4>(stream, to, from, width);
  } else if (bits % sizeof(std::uint32_t) == 0) {
    copy_words<std::uint32_t>(stream, to, from, width);
  } else {
    copy_words<std::uint16_t>(stream, to, from, width);
  }
}

}  // namespace trireme::ops::cuda
