#pragma once
#include "model/ops/cpu/simd/isa.h"

namespace trireme::simd {

template <Isa isa, class T>
void add(T* y, const T* a, const T* b, std::int64_t count);
template <Isa isa, class To, class From>
void cast(To* to, const From* from, std::int64_t count);
// to += from, in the accumulator type of T.
template <Isa isa, class T>
void accumulate(Sum<T>* to, const T* from, std::int64_t count);

// In float64; the order of additions depends only on `count`.
template <Isa isa, class T>
double sum(const T* x, std::int64_t count);
template <Isa isa, class T>
double sum_of_squares(const T* x, std::int64_t count);

// out [columns] = or += the column sums of `rows` rows that are `stride` apart.
template <class T>
struct Columns {
  Sum<T>* out = nullptr;
  const T* x = nullptr;
  std::int64_t rows = 0, stride = 0, columns = 0;
  bool add = false;
};
template <Isa isa, class T>
void column_sums(const Columns<T>& op);

}  // namespace trireme::simd
