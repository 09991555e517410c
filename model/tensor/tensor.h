#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <ostream>

#include "model/base/error.h"
#include "model/device/device.h"
#include "model/tensor/dtype.h"

namespace trireme {

class Shape {
 public:
  static constexpr int kMaxRank = 4;
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents) {
    require(extents.size() <= kMaxRank, "a shape has at most ", kMaxRank, " dimensions");
    for (const std::int64_t extent : extents) push_back(extent);
  }
  void push_back(std::int64_t extent) {
    require(rank_ < kMaxRank, "a shape has at most ", kMaxRank, " dimensions");
    extents_[static_cast<std::size_t>(rank_++)] = extent;
  }
  int rank() const { return rank_; }
  std::int64_t operator[](int dim) const { return extents_[static_cast<std::size_t>(dim)]; }
  std::int64_t& operator[](int dim) { return extents_[static_cast<std::size_t>(dim)]; }
  std::int64_t count() const {
    std::int64_t n = 1;
    for (int dim = 0; dim < rank_; ++dim) n *= (*this)[dim];
    return n;
  }
  bool operator==(const Shape&) const = default;

 private:
  std::array<std::int64_t, kMaxRank> extents_{};
  int rank_ = 0;
};

inline std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  out << "[";
  for (int dim = 0; dim < shape.rank(); ++dim) out << (dim ? ", " : "") << shape[dim];
  return out << "]";
}

// A typed, shaped, contiguous view of memory owned by an Arena, a ParamStore or a communication
// buffer. Copying a Tensor copies the view.
struct Tensor {
  std::byte* data = nullptr;
  DType dtype = DType::kF32;
  Shape shape;
  Device device;

  explicit operator bool() const { return data != nullptr; }
  std::int64_t count() const { return shape.count(); }
  std::size_t bytes() const { return static_cast<std::size_t>(count()) * size_of(dtype); }
  std::int64_t rows() const {
    return width() == 0 ? 0 : count() / width();
  }  // product of all dimensions but the last
  std::int64_t width() const { return shape[shape.rank() - 1]; }  // last dimension

  template <class T>
  T* as() const {
    require(dtype == DTypeOf<T>::kValue, "a ", name_of(dtype), " tensor read as ",
            name_of(DTypeOf<T>::kValue));
    return reinterpret_cast<T*>(data);
  }
  // Elements [first, first + n) as a flat view.
  Tensor slice(std::int64_t first, std::int64_t n) const {
    require(first >= 0 && n >= 0 && first + n <= count(), "slice [", first, ", ", first + n,
            ") of ", count());
    return {data + static_cast<std::size_t>(first) * size_of(dtype), dtype, Shape{n}, device};
  }
  // Rows [first, first + n) of a [rows, width] tensor.
  Tensor row_slice(std::int64_t first, std::int64_t n) const {
    return slice(first * width(), n * width()).reshaped({n, width()});
  }
  Tensor reshaped(Shape to) const {
    require(to.count() == count(), "reshape changes the element count from ", shape, " to ", to);
    return {data, dtype, to, device};
  }
};

}  // namespace trireme
