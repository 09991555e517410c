#include "model/ops/cpu/simd/isa.h"

#include <atomic>

#include "model/base/error.h"

namespace trireme::simd {
namespace {

Isa best() {
  if (present(Isa::kAvx512)) return Isa::kAvx512;
  return present(Isa::kAvx2) ? Isa::kAvx2 : Isa::kBaseline;
}

// Detected once; only select() changes it.
std::atomic<Isa>& choice() {
  static std::atomic<Isa> isa{best()};
  return isa;
}

}  // namespace

bool present(Isa isa) {
#ifdef __x86_64__
  if (isa == Isa::kAvx512) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           present(Isa::kAvx2);
  }
  if (isa == Isa::kAvx2) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  }
#endif
  return isa == Isa::kBaseline;
}

Isa selected() {
  return choice().load(std::memory_order_relaxed);
}

void select(Isa isa) {
  require(present(isa), "this machine has no ", name_of(isa));
  choice().store(isa, std::memory_order_relaxed);
}

}  // namespace trireme::simd
