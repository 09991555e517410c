#pragma once
#include <memory>
#include <span>

#include "parallel/comm/world.h"
#include "trainer/engine/engine.h"
#include "trainer/engine/rank_groups.h"
#include "trainer/engine/step_plan.h"

namespace trireme::verify {

class Mistake;

// One of the two layouts that are compared, in the first ranks of the world: its engine on this
// rank with all it stands on.
class Subject {
 public:
  // The data degrees of the config are settled. Collective over the world; the ranks beyond the
  // layout's build nothing. `mistake`, if any, is made by the groups. Throws EnvironmentError
  // where the memory does not suffice. All outlive the subject.
  Subject(const RunConfig& config, World& world, Device device, Mistake* mistake);

  int ranks() const { return ranks_; }
  bool takes_part() const { return parts_ != nullptr; }
  const RunConfig& config() const { return config_; }

  // The rest is for ranks that take part.
  Engine& engine() const { return parts_->engine; }
  const RankGroups& groups() const { return groups_; }
  Stream& stream() const { return parts_->stream; }
  // Gradients are those of so many times the loss.
  double loss_scale() const { return loss_scale_; }
  // The first weights: a run's, but that gains and biases stand a little off ones and zeros, where
  // a mistake in what they do shows.
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

// What begin() makes of the elements [first, first + values.size()) of a parameter.
void fill_initial(const ParamSpec& spec, std::uint64_t seed, std::int64_t first,
                  std::span<float> values);

}  // namespace trireme::verify
