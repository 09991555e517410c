#pragma once
#include "model/layers/region.h"

namespace trireme {

// A region seen by a layer inside of it: the same slice of the width, but the surrounding layer
// enters and leaves, so that several layers share one entry and one exit.
class EnteredRegion final : public Region {
 public:
  explicit EnteredRegion(const Region& outer) : slice_(outer.slice()) {}
  Slice slice() const override { return slice_; }

 private:
  Slice slice_;
};

}  // namespace trireme
