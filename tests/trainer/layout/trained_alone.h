#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "trainer/engine/engine.h"
#include "trainer/engine/rank_groups.h"
#include "trainer/engine/step_plan.h"

// What a model's training is when one rank does it alone, which a layout is compared with.
namespace trireme::tests {

constexpr std::int64_t kSeq = 24, kMicroBatch = 2;
constexpr std::uint32_t kVocab = 61;  // not divisible by any number of ranks

// This rank's micro-batches of the step: documents of five to eleven tokens if the mask is on;
// every seventh token has no target. The targets of these.
std::int64_t fill(Engine& engine, std::uint64_t step);

// An engine with all it stands on.
struct Trainer {
  Trainer(const EngineSpec& spec, const RankGroups& groups)
      : plan(plan_engine(spec, groups, {})),
        arenas(plan.memory, {}),
        engine(spec, groups, stream, arenas) {
    engine.model().params().initialize(1);
    engine.model().publish_masters(engine.stream());
  }
  EnginePlan plan;
  Stream stream;
  Arenas arenas;
  Engine engine;
};

using Gradients = std::map<std::string, std::vector<float>>;  // whole ones, by parameter

// What one rank alone computes in every step, and at the end.
struct Reference {
  struct Step {
    std::int64_t valid = 0;
    double loss = 0, norm = 0;
    Gradients gradients;
  };
  std::vector<Step> steps;
  double evaluated = 0;
};

// Changes a rank's shards of the initial weights.
using Prepare = std::function<void(ParamStore&)>;
// Before the first step.
void prepare(Engine& engine, const Prepare& how);

// Collective over the world: one rank, each in its turn, trains alone and tells the others.
Reference trained_alone(const EngineSpec& spec, int steps, const Prepare& how = {});

}  // namespace trireme::tests
