#include "trainer/tools/verify/subject.h"

#include <vector>

#include "model/params/init.h"
#include "parallel/comm/team.h"
#include "trainer/engine/engine_spec.h"
#include "trainer/engine/fit.h"
#include "trainer/engine/rank_groups.h"
#include "trainer/tools/verify/elements.h"
#include "trainer/tools/verify/mistake.h"

namespace trireme::verify {
namespace {

// Keeps the gradients of the first steps within the range of float16.
constexpr double kFloat16Scale = 1024;

constexpr double kOff = 0.05;  // standard deviation of the offset of gains and biases

}  // namespace

void fill_initial(const ParamSpec& spec, std::uint64_t seed, std::int64_t first,
                  std::span<float> values) {
  const auto at = static_cast<std::uint64_t>(first);
  ElementInit(spec.init, spec.init_scale, seed, spec.name).fill(at, values);
  if (spec.init == Init::kNormal) return;
  std::vector<float> off(values.size());
  ElementInit(Init::kNormal, kOff, seed, "verify/" + spec.name).fill(at, off);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] += off[i];
}

Subject::Parts::Parts(const EngineSpec& spec, const RankGroups& groups, Device device,
                      const EnginePlan& made)
    : plan(made),
      stream(device),
      arenas(plan.memory, device),
      engine(spec, groups, stream, arenas) {}

Subject::Subject(const RunConfig& config, World& world, Device device, Mistake* mistake)
    : config_(config),
      ranks_(static_cast<int>(world_size(config.parallelism))),
      groups_(groups_of_first(ranks_, world, config.parallelism, config.model)),
      loss_scale_(config.training.dtype == "float16" ? kFloat16Scale : 1) {
  if (world.rank() >= ranks_) return;
  if (mistake) mistake->make_in(groups_);
  EngineSpec spec = engine_spec(config_);
  if (mistake) mistake->in_spec(spec);
  EnginePlan plan;
  Team(*groups_.all).together([&] {
    plan = plan_engine(spec, groups_, device);
    const int on_device = world.ranks_on_device();
    require_fit(config_, device, plan.memory, available_memory(device, on_device));
  });
  parts_ = std::make_unique<Parts>(spec, groups_, device, plan);
  engine().scale_loss(loss_scale_);
}

void Subject::begin() const {
  const auto seed = static_cast<std::uint64_t>(config_.job.seed);
  engine().model().params().initialize(seed);
  for (const ParamShard& shard : engine().model().params().shards()) {
    const ParamSpec& spec = shard.param->spec;
    if (spec.init == Init::kNormal) continue;
    for_each_range(*shard.param, shard.first, shard.count(),
                   [&](std::int64_t here, std::int64_t logical, std::int64_t count) {
                     std::vector<float> values(count);
                     fill_initial(spec, seed, logical, values);
                     write_elements(stream(), shard.master.slice(here, count), values);
                   });
  }
  engine().model().optimizer().start_average(engine().stream());
  engine().model().publish_masters(engine().stream());
  engine().model().finish_publishing();
}

}  // namespace trireme::verify
