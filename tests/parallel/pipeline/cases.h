#pragma once
// Schedules to try: all published ones over the shapes they are defined for.
#include <functional>
#include <random>
#include <string>

#include "model/base/error.h"
#include "parallel/pipeline/registry.h"

namespace trireme::test {

struct Case {
  std::string name;
  PipelineShape shape;
  Schedule schedule;
  std::string text() const {
    return say(name, " on ", shape.ranks, " ranks with ", shape.virtual_stages, " stages each and ",
               shape.micro_batches, " micro-batches");
  }
};

inline bool is_defined(const NamedSchedule& named, const PipelineShape& shape) {
  if (shape.virtual_stages == 1) return true;
  return named.supports_stages(shape.virtual_stages) &&
         shape.micro_batches % named.micro_batch_multiple(shape.ranks) == 0;
}

// Every schedule for all of at most 16 ranks, 64 micro-batches and 4 stages a rank.
inline void for_each_case(const std::function<void(const Case&)>& visit) {
  for (const NamedSchedule& named : named_schedules()) {
    for (int ranks = 1; ranks <= 16; ++ranks) {
      for (int micro_batches = 1; micro_batches <= 64; ++micro_batches) {
        for (int virtual_stages = 1; virtual_stages <= 4; ++virtual_stages) {
          const PipelineShape shape{ranks, micro_batches, virtual_stages};
          if (is_defined(named, shape)) visit({named.name, shape, named.make(shape)});
        }
      }
    }
  }
}

using Random = std::mt19937_64;

// In [0, count); the same on every machine.
inline std::size_t pick(Random& random, std::size_t count) {
  return static_cast<std::size_t>(random() % count);
}

// A case of the same range, small ones as likely as large ones.
inline Case random_case(Random& random) {
  const auto up_to = [&](int most) {
    return 1 + static_cast<int>(pick(random, 1 + pick(random, static_cast<std::size_t>(most))));
  };
  while (true) {
    const NamedSchedule& named = named_schedules()[pick(random, named_schedules().size())];
    const PipelineShape shape{up_to(16), up_to(64), up_to(4)};
    if (is_defined(named, shape)) return {named.name, shape, named.make(shape)};
  }
}

}  // namespace trireme::test
