#include "tests/trainer/tools/plan/published_layouts.h"

#include <algorithm>
#include <optional>

#include "model/base/error.h"
#include "model/device/imagined.h"
#include "parallel/pipeline/registry.h"
#include "trainer/tools/plan/run_plan.h"

namespace trireme::published {
namespace {

// A stage's last layer is the first with which the stages up to it have more than their share of
// the multiply-adds, the head's included (nanotron, models/base.py).
std::vector<std::int64_t> divided_by_nanotron(const ModelConfig& m, std::int64_t stages) {
  const auto hidden = static_cast<double>(m.hidden_size);
  const double layer = hidden * static_cast<double>(4 * m.hidden_size + 3 * m.intermediate_size);
  const double all =
      layer * static_cast<double>(m.num_hidden_layers) + hidden * static_cast<double>(m.vocab_size);
  std::vector<std::int64_t> layers(static_cast<std::size_t>(stages));
  std::size_t stage = 0;
  for (std::int64_t i = 1; i <= m.num_hidden_layers; ++i) {
    ++layers[stage];
    const double share = all * static_cast<double>(stage + 1) / static_cast<double>(stages);
    if (layer * static_cast<double>(i) > share) ++stage;
  }
  return layers;
}

// The embedding and the head count as a layer: an empty one each. In Llama 3 405B they are alone in
// the first and the last stage (section 3.3.2 of the paper).
void set_stages_with_ends(Run& run, std::int64_t stages) {
  EngineSpec& spec = run.work.spec;
  spec.model.num_hidden_layers += 2;
  run.ops.kinds.emplace_back();
  run.ops.kind_of.assign(static_cast<std::size_t>(spec.model.num_hidden_layers), 0);
  run.ops.kind_of.front() = run.ops.kind_of.back() = run.ops.kinds.size() - 1;
  if (stages > run.work.mesh.pipeline) spec.parallelism.schedule = "Interleaved1F1B";
  const auto layers = static_cast<std::int64_t>(run.ops.kind_of.size());
  require(layers % stages == 0, "stages of ", run.model);
  spec.parallelism.layers_per_stage.assign(static_cast<std::size_t>(stages), layers / stages);
}

void set_stages(Run& run) {
  Workload& w = run.work;
  ParallelismConfig& p = w.spec.parallelism;
  const std::int64_t layers = w.spec.model.num_hidden_layers, ranks = w.mesh.pipeline;
  const std::int64_t stages = ranks * p.virtual_stages;
  if (run.group == "Llama 3 Herd" || says(run.note, "ends are layers")) {
    return set_stages_with_ends(run, stages);
  }
  if (p.virtual_stages > 1) p.schedule = "Interleaved1F1B";
  if (run.group == "nanotron") {
    p.layers_per_stage = divided_by_nanotron(w.spec.model, stages);
  } else if (layers % stages == 0) {
    p.layers_per_stage.assign(static_cast<std::size_t>(stages), layers / stages);
  }
}

// Of each of a block's six parameters and the ends' two there is one for each data parallel rank.
double slices_of(const Run& run) {
  const std::vector<std::int64_t>& layers = run.work.spec.parallelism.layers_per_stage;
  const std::int64_t parameters = 6 * *std::max_element(layers.begin(), layers.end()) + 2;
  return static_cast<double>(parameters * run.work.mesh.data_shard);
}

// By the planner's arenas.
bool fits(const Run& run) {
  const Device device = imagined_gpu();
  const double available = usable_bytes(find_profile(run.gpu), device, run.work.ranks());
  return static_cast<double>(plan_layout(config_of(run), device).most_device_bytes()) <= available;
}

// A run with that many sequences per micro-batch and virtual stages per rank.
Run with_batch(Run run, const TrainerTraits& traits, std::int64_t sequences,
               std::int64_t micro_batch, std::int64_t virtual_stages) {
  EngineSpec& spec = run.work.spec;
  spec.training.local_batch_size = micro_batch;
  spec.micro_batches = std::max<std::int64_t>(1, sequences / micro_batch);
  spec.parallelism.virtual_stages = virtual_stages;
  run.ops = ops_of(run.work, traits);
  set_stages(run);
  run.slices = traits.gathers_by_slices ? slices_of(run) : 0;
  run.waits_for_ends = traits.waits_for_ends && run.work.mesh.pipeline == 1;
  run.schedule = std::make_shared<Simulation>(
      make_schedule(spec.parallelism.schedule, pipeline_shape(run.work)));
  return run;
}

}  // namespace

Run fastest(const Run& run, const TrainerTraits& traits, std::int64_t sequences,
            std::int64_t micro_batch, std::int64_t virtual_stages) {
  const Profiles profiles = profiles_of(fitted());
  const std::int64_t layers = run.work.spec.model.num_hidden_layers, ranks = run.work.mesh.pipeline;
  std::optional<Run> best;
  double least = 0;
  for (std::int64_t batch = 1; batch <= sequences; ++batch) {
    if (micro_batch > 0 ? batch != micro_batch : sequences % batch != 0) continue;
    for (std::int64_t stages = 1; stages <= std::max(layers / ranks, virtual_stages); ++stages) {
      if (virtual_stages > 0 ? stages != virtual_stages : layers % (ranks * stages) != 0) continue;
      if (stages > 1 && (ranks == 1 || sequences / batch % ranks != 0)) continue;
      Run made = with_batch(run, traits, sequences, batch, stages);
      const double taken = estimate(made, profiles).seconds;
      if (best && (taken >= least || !fits(made))) continue;
      least = taken;
      best = std::move(made);
    }
  }
  require(best.has_value(), "no micro-batch of ", run.source);
  return *best;
}

}  // namespace trireme::published
