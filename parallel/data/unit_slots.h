#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "model/params/param_store.h"

namespace trireme {

// Assigns buffers to units whose values or gradients are sharded. Units alternate between two
// slots, so that one is used while the other is in flight; a unit alone in its bucket (a tied
// embedding, used at both ends of the model) has its own slot.
struct UnitSlots {
  UnitSlots(const ParamStore& store, bool gradients) {
    const auto& units = store.units();
    of_unit.assign(units.size(), -1);
    elements = {0, 0};
    int turn = 0;
    for (std::size_t u = 0; u < units.size(); ++u) {
      const ParamStore::Unit& unit = units[u];
      if (unit.gradient_only && !gradients) continue;
      const ParamStore::Bucket& bucket = store.buckets()[static_cast<std::size_t>(unit.bucket)];
      const std::int64_t count = bucket.part * store.sharing().parts;
      if (unit.alone) {
        of_unit[u] = static_cast<int>(elements.size());
        elements.push_back(count);
      } else {
        of_unit[u] = turn;
        auto& most = elements[static_cast<std::size_t>(turn)];
        most = std::max(most, count);
        turn = 1 - turn;
      }
    }
  }
  std::vector<int> of_unit;            // -1: none
  std::vector<std::int64_t> elements;  // by slot
};

}  // namespace trireme
