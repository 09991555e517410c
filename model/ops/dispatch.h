#pragma once
#include <type_traits>
#include <utility>

#include "model/base/error.h"
#include "model/device/stream.h"
#include "model/tensor/dtype.h"

// TRIREME_ON_DEVICES(declaration) declares a function of an op that each device implements, in the
// namespaces cpu and cuda. TRIREME_DISPATCH(stream, op(args...)) calls cuda::op or cpu::op,
// depending on the stream's device, and nothing on a planning stream. It is a statement, used once
// at the end of a device-independent op, after its checks and its allocations in the scratch arena.
// TRIREME_CUDA is defined for ops with a CUDA implementation (model/ops/cuda/kernels.cmake). There
// is no fallback to another device. TRIREME_CHOICE(stream, op(args...)) is the value of such a
// call, made on planning streams too: the workspace of a device's kernels.
#define TRIREME_ON_DEVICES(...) \
  namespace cpu {               \
  __VA_ARGS__;                  \
  }                             \
  namespace cuda {              \
  __VA_ARGS__;                  \
  }                             \
  static_assert(true)
#ifdef TRIREME_CUDA
#define TRIREME_DISPATCH(stream, ...) \
  do {                                \
    if (!(stream).executes()) break;  \
    if ((stream).on_cuda())           \
      cuda::__VA_ARGS__;              \
    else                              \
      cpu::__VA_ARGS__;               \
  } while (false)
#define TRIREME_CHOICE(stream, ...) ((stream).on_cuda() ? cuda::__VA_ARGS__ : cpu::__VA_ARGS__)
#else
#define TRIREME_DISPATCH(stream, ...)                                                 \
  do {                                                                                \
    if (!(stream).executes()) break;                                                  \
    require(!(stream).on_cuda(), "this build has no CUDA version of ", #__VA_ARGS__); \
    cpu::__VA_ARGS__;                                                                 \
  } while (false)
#define TRIREME_CHOICE(stream, ...) cpu::__VA_ARGS__
#endif

namespace trireme {

// Calls `body` with a zero of the C++ type of `dtype`: float, double, Bf16 or F16.
template <class Body>
decltype(auto) with_float(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::kF32:
      return std::forward<Body>(body)(float{});
    case DType::kF64:
      return std::forward<Body>(body)(double{});
    case DType::kBf16:
      return std::forward<Body>(body)(Bf16{});
    case DType::kF16:
      return std::forward<Body>(body)(F16{});
    case DType::kI32:
      break;
  }
  throw Error(say("a floating-point op was given ", name_of(dtype)));
}

// The C++ accumulator type of T.
template <class T>
struct AccumulatorOf {
  using Type = float;
};
template <>
struct AccumulatorOf<double> {
  using Type = double;
};
template <class T>
using Accumulator = typename AccumulatorOf<T>::Type;
// Whether T is an accumulator type.
template <class T>
inline constexpr bool kIsAccumulator = std::is_same_v<T, Accumulator<T>>;

}  // namespace trireme
