#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "model/device/stream.h"
#include "model/ops/strided_copy.h"
#include "model/params/param_store.h"
#include "model/tensor/tensor.h"

namespace trireme {

// Initial values of a logical parameter: each depends only on the seed, the parameter's name and
// the element's index (ops/draw.h).
class ElementInit {
 public:
  ElementInit(Init init, double scale, std::uint64_t seed, std::string_view name);
  // Elements [first, first + out.size()) of the logical tensor, row-major.
  void fill(std::uint64_t first, std::span<float> out) const;
  // The elements of the whole that `where` describes, flat, of any floating dtype, on the tensor's
  // device.
  void fill(Stream&, Tensor out, const ops::Strided& where) const;

 private:
  Init init_;
  double scale_;
  std::uint64_t key_;
};

}  // namespace trireme
