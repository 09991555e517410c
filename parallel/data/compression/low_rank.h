#pragma once
#include <cstdint>

namespace trireme {

// Orthonormalizes the columns of p [rows, rank], row-major, in order, by modified Gram-Schmidt
// applied twice. A column in the span of earlier ones becomes zero; non-finite values stay
// non-finite. The order of additions is fixed, so the bits are the same everywhere.
template <class T>
void orthonormalize(T* p, std::int64_t rows, int rank);

// Normalizes the rows of the initial directions q [rank, width] to length one. Rows that are zero
// or not finite are first replaced by random ones keyed by (row, column, update).
template <class T>
void refresh_directions(T* q, int rank, std::int64_t width, std::int64_t update);

// out [rows, width] = p q, with p [rows, rank] and q [rank, width].
template <class T>
void low_rank_product(T* out, const T* p, const T* q, std::int64_t rows, std::int64_t width,
                      int rank);
// out -= p q; elements that are not finite become zero.
template <class T>
void subtract_low_rank(T* out, const T* p, const T* q, std::int64_t rows, std::int64_t width,
                       int rank);

}  // namespace trireme
