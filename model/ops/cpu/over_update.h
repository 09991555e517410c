#pragma once
#include <cmath>

#include "model/device/cpu/threads.h"
#include "model/ops/cpu/kernels.h"
#include "model/tensor/update_tensors.h"

namespace trireme::ops::cpu {

// The elements of UpdateTensors, as kernels read and write them.
template <class T>
struct UpdateRange {
  T* value = nullptr;
  Accumulator<T>* master = nullptr;  // null: `value` is the master
  Accumulator<T>* grad = nullptr;
  Accumulator<T>*m = nullptr, *v = nullptr;  // first and second state
  std::int64_t count = 0;
  double grad_scale = 1;
};

// Calls body(UpdateRange<T>) for ranges of the tensors, unless grad_scale is NaN.
template <class Body>
void over_update(const UpdateTensors& tensors, const Tensor& grad_scale, const Body& body) {
  with_float(tensors.value.dtype, [&]<class T>(T) {
    using A = Accumulator<T>;
    const double scale = *at<A>(grad_scale);
    if (std::isnan(scale)) return;
    const Tensor master = tensors.separate_master();
    trireme::cpu::parallel_for(tensors.count(), 8192, [&](std::int64_t first, std::int64_t last) {
      body(UpdateRange<T>{.value = at<T>(tensors.value, first),
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
