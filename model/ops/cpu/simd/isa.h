#pragma once
#include <cstdint>

// The instruction set of the kernels. Highway (https://github.com/google/highway) compiles them
// once for each and calls those of the selected one.
namespace trireme::simd {

// kBaseline is SSE4.2 on x86 and NEON on ARM.
enum class Isa : std::uint8_t { kBaseline, kAvx2, kAvx512 };

constexpr const char* name_of(Isa isa) {
  return isa == Isa::kAvx512 ? "avx512" : isa == Isa::kAvx2 ? "avx2" : "baseline";
}

// Throws EnvironmentError unless the processor has the baseline, without which kernels end the
// program by a signal.
void require_baseline();
// Whether the build and the processor support it.
bool present(Isa isa);
// The instruction set of the kernels: the best available, or that of select().
Isa selected();
// For tests and benchmarks, between ops. Throws Error if it is not available.
void select(Isa isa);

}  // namespace trireme::simd
