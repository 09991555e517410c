#pragma once
#include <cstdint>

// Kernels are compiled once per instruction set, as templates over Isa whose
// instances have internal helpers only, so that the linker can never hand code
// for one processor to another. Their headers declare, kernel sources define.
namespace trireme::simd {

enum class Isa : std::uint8_t { kBaseline, kAvx2, kAvx512 };

constexpr const char* name_of(Isa isa) {
  return isa == Isa::kAvx512 ? "avx512" : isa == Isa::kAvx2 ? "avx2" : "baseline";
}

// Whether this build and this processor have it.
bool present(Isa isa);
// The one kernels run with: the best present, unless select() said otherwise.
Isa selected();
// For tests and benchmarks, between ops: an Error when it is not present.
void select(Isa isa);

// Calls body.operator()<isa>() for the selected instruction set.
template <class Body>
void with_isa(const Body& body) {
  switch (selected()) {
#ifdef __x86_64__
    case Isa::kAvx512:
      return body.template operator()<Isa::kAvx512>();
    case Isa::kAvx2:
      return body.template operator()<Isa::kAvx2>();
#endif
    default:
      return body.template operator()<Isa::kBaseline>();
  }
}

// A kernel's view of one bfloat16, and of one float16.
using Bf16Bits = std::uint16_t;
enum class F16Bits : std::uint16_t {};

// What sums and statistics of T are kept in.
template <class T>
struct SumOf {
  using Type = float;
};
template <>
struct SumOf<double> {
  using Type = double;
};
template <class T>
using Sum = typename SumOf<T>::Type;

}  // namespace trireme::simd
