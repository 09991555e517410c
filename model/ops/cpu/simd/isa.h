#pragma once
#include <cstdint>

// Kernels are compiled once per instruction set, as templates over Isa whose instances have only
// internal helpers, so that the linker cannot mix code of different instruction sets. Headers
// declare, kernel sources define.
namespace trireme::simd {

enum class Isa : std::uint8_t { kBaseline, kAvx2, kAvx512 };

constexpr const char* name_of(Isa isa) {
  return isa == Isa::kAvx512 ? "avx512" : isa == Isa::kAvx2 ? "avx2" : "baseline";
}

// Whether the build and the processor support it.
bool present(Isa isa);
// The instruction set of the kernels: the best available, or that of select().
Isa selected();
// For tests and benchmarks, between ops. Throws Error if it is not available.
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

// Storage type of bfloat16, and of float16, in kernels.
using Bf16Bits = std::uint16_t;
enum class F16Bits : std::uint16_t {};

// Accumulator type of T.
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
