#include "model/ops/cpu/simd/isa.h"

#include "model/base/error.h"
#include "model/ops/cpu/simd/targets.h"

namespace trireme::simd {
namespace {

std::int64_t target_of(Isa isa) {
  return isa == Isa::kAvx512 ? HWY_AVX3 : isa == Isa::kAvx2 ? HWY_AVX2 : HWY_STATIC_TARGET;
}

}  // namespace

void require_baseline() {
#if defined(__x86_64__)
  // Of HWY_SSE4.
  if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("aes")) return;
  throw EnvironmentError("this processor lacks SSE4.2 or AES, which trireme needs");
#endif
}

bool present(Isa isa) {
  // The processor's, before select() hides others.
  static const std::int64_t kTargets = hwy::SupportedTargets() & HWY_TARGETS;
  return (kTargets & target_of(isa)) != 0;
}

Isa selected() {
  for (const Isa isa : {Isa::kAvx512, Isa::kAvx2}) {
    if (hwy::SupportedTargets() & HWY_TARGETS & target_of(isa)) return isa;
  }
  return Isa::kBaseline;
}

void select(Isa isa) {
  require(present(isa), "this machine has no ", name_of(isa));
  hwy::SetSupportedTargetsForTest(target_of(isa));
}

}  // namespace trireme::simd
