#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "model/params/param_store.h"

namespace trireme {

// Assigns buffers to units whose values or gradients are sharded. Units of a group alternate
// between two slots, so that one is used while the other is in flight; a unit alone in its bucket
// (a tied embedding, used at both ends of the model) has its own slot. Values of which a rank has
// all need none.
struct UnitSlots {
  // A slot for gradients of experts has `expert_ranks` buffers.
  UnitSlots(const ParamStore& store, bool gradients, int expert_ranks = 1) {
    const auto& units = store.units();
    of_unit.assign(units.size(), -1);
    struct Pair {
      int slots[2] = {-1, -1};
      int turn = 0;
    } dense, experts;
    for (std::size_t u = 0; u < units.size(); ++u) {
      const ParamStore::Unit& unit = units[u];
      const ParamStore::Bucket& bucket = store.buckets()[static_cast<std::size_t>(unit.bucket)];
      if (!gradients && (unit.gradient_only || bucket.parts == 1)) continue;
      const bool is_dense = unit.group == ParamGroup::kDense;
      const std::int64_t count = bucket.count() * (is_dense ? 1 : expert_ranks);
      if (unit.alone) {
        of_unit[u] = added(count);
        continue;
      }
      Pair& pair = is_dense ? dense : experts;
      int& slot = pair.slots[pair.turn];
      pair.turn = 1 - pair.turn;
      if (slot < 0) slot = added(0);
      of_unit[u] = slot;
      elements[static_cast<std::size_t>(slot)] =
          std::max(elements[static_cast<std::size_t>(slot)], count);
    }
  }
  std::vector<int> of_unit;            // -1: none
  std::vector<std::int64_t> elements;  // by slot

 private:
  int added(std::int64_t count) {
    elements.push_back(count);
    return static_cast<int>(elements.size()) - 1;
  }
};

}  // namespace trireme
