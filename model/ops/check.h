#pragma once
#include "model/tensor/tensor.h"

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

}  // namespace trireme::ops
