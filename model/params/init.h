#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "model/params/param_store.h"

namespace trireme {

// Initial values of a logical parameter: each depends only on the seed, the parameter's name and
// the element's index. Normal numbers come from Philox by the Box-Muller transform with our own
// logarithm, sine and cosine, made of additions, products, quotients and square roots, which IEEE
// 754 defines to the bit; library functions differ between machines.
class ElementInit {
 public:
  ElementInit(Init init, double scale, std::uint64_t seed, std::string_view name);
  // Elements [first, first + out.size()) of the logical tensor, row-major.
  void fill(std::uint64_t first, std::span<float> out) const;

 private:
  Init init_;
  double scale_;
  std::uint64_t key_;
};

}  // namespace trireme
