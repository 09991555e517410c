#include "parallel/data/compression/low_rank.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "model/base/philox.h"
#include "model/device/cpu/threads.h"
#include "parallel/data/compression/compressed_sum.h"

namespace trireme {
namespace {

template <class T>
double column_product(const T* p, std::int64_t rows, int rank, int a, int b) {
  double sum = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    sum += static_cast<double>(p[i * rank + a]) * static_cast<double>(p[i * rank + b]);
  }
  return sum;
}

// out += factor * p q, row by row.
template <class T>
void add_row(T* out, const T* p, const T* q, std::int64_t width, int rank, T factor) {
  for (int k = 0; k < rank; ++k) {
    const T weight = factor * p[k];
    const T* const direction = q + k * width;
    for (std::int64_t j = 0; j < width; ++j) out[j] += weight * direction[j];
  }
}

std::int64_t row_grain(std::int64_t width) {
  return 16384 / std::max<std::int64_t>(width, 1) + 1;
}

}  // namespace

template <class T>
void orthonormalize(T* p, std::int64_t rows, int rank) {
  for (int k = 0; k < rank; ++k) {
    const double before = std::sqrt(column_product(p, rows, rank, k, k));
    for (int pass = 0; pass < 2; ++pass) {
      for (int j = 0; j < k; ++j) {
        const auto along = static_cast<T>(column_product(p, rows, rank, j, k));
        for (std::int64_t i = 0; i < rows; ++i) p[i * rank + k] -= along * p[i * rank + j];
      }
    }
    const double after = std::sqrt(column_product(p, rows, rank, k, k));
    const bool spanned =
        std::isfinite(after) && after <= before * 16 * std::numeric_limits<T>::epsilon();
    for (std::int64_t i = 0; i < rows; ++i) {
      T& value = p[i * rank + k];
      value = spanned ? T{0} : static_cast<T>(value / after);
    }
  }
}

template <class T>
void refresh_directions(T* q, int rank, std::int64_t width, std::int64_t update) {
  const std::uint64_t key = random_key(0, "compression/directions");
  for (int k = 0; k < rank; ++k) {
    T* const row = q + k * width;
    const auto square = [&] {
      double sum = 0;
      for (std::int64_t j = 0; j < width; ++j) sum += static_cast<double>(row[j]) * row[j];
      return sum;
    };
    double squares = square();
    if (!(squares > 0 && std::isfinite(squares))) {
      for (std::int64_t j = 0; j < width; ++j) {
        const std::uint64_t column = static_cast<std::uint64_t>(k) << 48 | j;
        const auto word = static_cast<std::int32_t>(philox(key, column, update)[0]);
        row[j] = static_cast<T>(word) / static_cast<T>(std::int64_t{1} << 31);
      }
      squares = square();
    }
    const double scale = 1 / std::sqrt(squares);
    for (std::int64_t j = 0; j < width; ++j) row[j] = static_cast<T>(row[j] * scale);
  }
}

template <class T>
void low_rank_product(T* out, const T* p, const T* q, std::int64_t rows, std::int64_t width,
                      int rank) {
  cpu::parallel_for(rows, row_grain(width), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      std::fill_n(out + i * width, width, T{0});
      add_row(out + i * width, p + i * rank, q, width, rank, T{1});
    }
  });
}

template <class T>
void subtract_low_rank(T* out, const T* p, const T* q, std::int64_t rows, std::int64_t width,
                       int rank) {
  cpu::parallel_for(rows, row_grain(width), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      T* const row = out + i * width;
      add_row(row, p + i * rank, q, width, rank, T{-1});
      std::transform(row, row + width, row, finite_or_zero<T>);
    }
  });
}

template void orthonormalize(float*, std::int64_t, int);
template void orthonormalize(double*, std::int64_t, int);
template void refresh_directions(float*, int, std::int64_t, std::int64_t);
template void refresh_directions(double*, int, std::int64_t, std::int64_t);
template void low_rank_product(float*, const float*, const float*, std::int64_t, std::int64_t, int);
template void low_rank_product(double*, const double*, const double*, std::int64_t, std::int64_t,
                               int);
template void subtract_low_rank(float*, const float*, const float*, std::int64_t, std::int64_t,
                                int);
template void subtract_low_rank(double*, const double*, const double*, std::int64_t, std::int64_t,
                                int);

}  // namespace trireme
