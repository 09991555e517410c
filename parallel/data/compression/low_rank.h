#pragma once
#include <cstdint>

namespace trireme {

// Makes the columns of p [rows, rank], row-major, orthonormal in their order by the modified
// Gram-Schmidt process done twice. A column that the earlier ones span becomes zero; what is
// not finite stays so. One order of additions: the same bits everywhere.
template <class T>
void orthonormalize(T* p, std::int64_t rows, int rank);

// Rows of starting directions q [rank, width] that are zero or not finite are drawn anew,
// from (row, column, update) only; all become of length one.
template <class T>
void refresh_directions(T* q, int rank, std::int64_t width, std::int64_t update);

// out [rows, width] = the product p q, p [rows, rank], q [rank, width].
template <class T>
void low_rank_product(T* out, const T* p, const T* q, std::int64_t rows, std::int64_t width,
                      int rank);
// out -= p q, and zero where that is not finite.
template <class T>
void subtract_low_rank(T* out, const T* p, const T* q, std::int64_t rows, std::int64_t width,
                       int rank);

}  // namespace trireme
