#pragma once
// Included only by kernel sources: flat ranges of weights, with or without a master copy.
#include "model/ops/cuda/flat.cuh"
#include "model/tensor/update_tensors.h"

namespace trireme::ops::cuda {

template <class T>
struct Weights {
  T* value = nullptr;
  Sum<T>* master = nullptr;  // null: `value` is the master

  static Weights of(const UpdateTensors& tensors) {
    return {at<T>(tensors.value), at<Sum<T>>(tensors.separate_master())};
  }
  template <int n>
  __device__ void read(Sum<T> (&to)[n], std::int64_t first) const {
    if (master) {
      load(to, master + first);
    } else {
      load(to, value + first);
    }
  }
  template <int n>
  __device__ void write(const Sum<T> (&from)[n], std::int64_t first) const {
    if (master) store(master + first, from);
    store(value + first, from);
  }
};

// Calls body with Count 4 if all tensors are aligned for packs of four elements of A, otherwise
// with Count 1.
template <class A, class Body, class... Tensors>
void with_fours(const Body& body, const Tensors&... tensors) {
  if (aligned(4 * sizeof(A), tensors...)) {
    body(Count<4>{});
  } else {
    body(Count<1>{});
  }
}

}  // namespace trireme::ops::cuda
