#pragma once
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "trainer/tools/plan/search/layouts.h"

namespace trireme {

// Layouts that do not fit, for skipping others that certainly need more memory: those that differ
// only by a larger micro-batch, by less recomputation or by more replicas, which divide the state
// among fewer ranks.
class TooLargeLayouts {
 public:
  void add(const RunConfig& layout) { add(layout, kind_of(layout)); }
  bool has_smaller(const RunConfig& layout) const { return has_smaller(layout, kind_of(layout)); }

  // Of families: no schedule makes them fit.
  void add_family(const RunConfig& family) { add(family, kind_of_family(family)); }
  bool has_smaller_family(const RunConfig& family) const {
    return has_smaller(family, kind_of_family(family));
  }

 private:
  // What a comparable layout has in common.
  using Kind = std::tuple<std::int64_t, bool, ContextShape, std::int64_t, std::string, std::int64_t,
                          std::int64_t, std::int64_t>;
  // What it has of what takes memory.
  struct Sizes {
    std::int64_t micro_batch = 1;
    int kept = 0;
    std::int64_t replicate = 1;
  };
  static Kind kind_of(const RunConfig& layout);
  static Kind kind_of_family(const RunConfig& family);
  static Sizes sizes_of(const RunConfig& layout);
  void add(const RunConfig& layout, const Kind& kind);
  bool has_smaller(const RunConfig& layout, const Kind& kind) const;

  std::map<Kind, std::vector<Sizes>> known_;
};

}  // namespace trireme
