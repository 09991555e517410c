#pragma once
#include <initializer_list>

#include "model/tensor/update_tensors.h"

namespace trireme::ops {

// Check of an op's argument: `what` is "op: tensor".
inline void require_like(const char* what, const Tensor& tensor, const Shape& shape, DType dtype) {
  require(tensor.shape == shape && tensor.dtype == dtype, what, " is ", name_of(tensor.dtype), " ",
          tensor.shape, ", not ", name_of(dtype), " ", shape);
}
// For tensors of which only the number of elements matters.
inline void require_count(const char* what, const Tensor& tensor, std::int64_t count, DType dtype) {
  require(tensor.count() == count && tensor.dtype == dtype, what, " is ", name_of(tensor.dtype),
          " ", tensor.shape, ", not ", count, " of ", name_of(dtype));
}

// For an op that updates weights and uses the states with these names.
inline void require_update(const char* op, const UpdateTensors& tensors, const Tensor& grad_scale,
                           std::initializer_list<const char*> states) {
  const DType sums = accumulator_of(tensors.value.dtype);
  const auto check = [&](const char* name, const Tensor& tensor, std::int64_t count) {
    const bool is_absent = !tensor && count > 0;
    require(!is_absent && tensor.count() == count && tensor.dtype == sums, op, ": ", name, " is ",
            name_of(tensor.dtype), " ", tensor.shape, is_absent ? " without memory" : "", ", not ",
            count, " of ", name_of(sums));
  };
  check("master", tensors.master, tensors.count());
  check("grad", tensors.grad, tensors.count());
  check("grad_scale", grad_scale, 1);
  std::size_t k = 0;
  for (const char* const name : states) check(name, tensors.state[k++], tensors.count());
}

}  // namespace trireme::ops
