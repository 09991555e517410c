#pragma once
// Seen by kernel sources only: flat ranges of weights, with or without a master copy.
#include "model/ops/cuda/flat.cuh"

namespace trireme::ops::cuda {

template <class T>
struct Weights {
  T* value = nullptr;
  Sum<T>* master = nullptr;  // null: value is the master

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

// Calls body with a Count of 4 where all tensors lie as packs of that many numbers of A want
// it, else of 1.
template <class A, class Body, class... Tensors>
void with_fours(const Body& body, const Tensors&... tensors) {
  if (aligned(4 * sizeof(A), tensors...)) {
    body(Count<4>{});
  } else {
    body(Count<1>{});
  }
}

}  // namespace trireme::ops::cuda
