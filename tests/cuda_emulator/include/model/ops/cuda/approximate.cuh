#pragma once
// Instead of the file of this name among the sources, which says what each function does.
#include <cmath>
#include <limits>

namespace trireme::ops::cuda {

inline float power_of_two(float value) {
  const float power = std::exp2(value);
  return power < std::numeric_limits<float>::min() ? 0 : power;
}

inline float inverse_of(float value) {
  const float inverse = 1 / value;
  return std::fabs(inverse) < std::numeric_limits<float>::min() ? 0 : inverse;
}

template <class A>
A larger(A a, A b) {
  return b > a || b != b ? b : a;
}

}  // namespace trireme::ops::cuda
