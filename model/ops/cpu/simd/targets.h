// The instruction sets of the kernels, Highway's targets; included before any header of Highway's.
// A source that names itself in HWY_TARGET_INCLUDE is compiled once for each.
#ifndef HWY_DISABLED_TARGETS
#if defined(__x86_64__)
#define HWY_BASELINE_TARGETS HWY_SSE4
#endif
// Kernels have arrays of vectors, so the compiler must know a vector's length.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#endif
#ifdef HWY_TARGET_INCLUDE
#include <hwy/foreach_target.h>
#else
#include <hwy/targets.h>
#endif
