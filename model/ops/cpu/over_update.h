#pragma once
#include <cmath>

#include "model/device/cpu/threads.h"
#include "model/ops/cpu/kernels.h"
#include "model/ops/cpu/simd/update_range.h"
#include "model/tensor/update_tensors.h"

namespace trireme::ops::cpu {

// Calls body.operator()<isa, T>(range) for ranges of the tensors, unless grad_scale is NaN.
template <class Body>
void over_update(const UpdateTensors& tensors, const Tensor& grad_scale, const Body& body) {
  with_kernels(tensors.value.dtype, [&]<simd::Isa isa, class T>() {
    using A = simd::Sum<T>;
    const double scale = *at<A>(grad_scale);
    if (std::isnan(scale)) return;
    const Tensor master = tensors.separate_master();
    trireme::cpu::parallel_for(tensors.count(), 8192, [&](std::int64_t first, std::int64_t last) {
      body.template operator()<isa, T>(simd::UpdateRange<T>{.value = at<T>(tensors.value, first),
                                                            .master = at<A>(master, first),
                                                            .grad = at<A>(tensors.grad, first),
                                                            .m = at<A>(tensors.state[0], first),
                                                            .v = at<A>(tensors.state[1], first),
                                                            .count = last - first,
                                                            .grad_scale = scale});
    });
  });
}

}  // namespace trireme::ops::cpu
