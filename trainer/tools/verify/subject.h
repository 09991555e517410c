#pragma once
#include <memory>
#include <span>

#include "parallel/comm/world.h"
#include "trainer/engine/engine.h"
#include "trainer/engine/rank_groups.h"
#include "trainer/engine/step_plan.h"

namespace trireme::verify {

class Mistake;

// One of the two layouts, on the first ranks of the world: its engine on this rank with the groups,
// stream and memory.
class Subject {
 public:
  // All data-parallel degrees of the config are set. Collective over the world; ranks beyond the
  // layout build nothing. `mistake` (may be null) is injected. Throws EnvironmentError if the
  // memory is insufficient. All arguments must outlive the subject.
  Subject(const RunConfig& config, World& world, Device device, Mistake* mistake);

  int ranks() const { return ranks_; }
  bool takes_part() const { return parts_ != nullptr; }
  const RunConfig& config() const { return config_; }

  // Valid only if takes_part().
  Engine& engine() const { return parts_->engine; }
  const RankGroups& groups() const { return groups_; }
  Stream& stream() const { return parts_->stream; }
  // Factor of all gradients.
  double loss_scale() const { return loss_scale_; }
  // Initializes the weights as a run does, except that norm gains and biases deviate from ones and
  // zeros, so that errors in them show.
  void begin() const;

 private:
  struct Parts {
    Parts(const EngineSpec& spec, const RankGroups& groups, Device device, const EnginePlan& made);
    EnginePlan plan;
    Stream stream;
    Arenas arenas;
    Engine engine;
  };
  RunConfig config_;
  int ranks_;
  RankGroups groups_;
  double loss_scale_;
  std::unique_ptr<Parts> parts_;
};

// Initial values of elements [first, first + values.size()) of a parameter, as set by begin().
void fill_initial(const ParamSpec& spec, std::uint64_t seed, std::int64_t first,
                  std::span<float> values);

}  // namespace trireme::verify
