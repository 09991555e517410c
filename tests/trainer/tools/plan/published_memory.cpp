#include "tests/trainer/tools/plan/published_memory.h"

#include <map>

#include "model/device/imagined.h"

namespace trireme::published {
namespace {

// GiB in figures 1 and 7.
struct Published {
  double state, plain, with_both;
};
const std::map<std::string, Published> kPublished{{"k22-22B", {45.56, 59.25, 9.56}},
                                                  {"k22-175B", {45.56, 66.84, 12.35}},
                                                  {"k22-530B", {31.64, 114.02, 23.08}},
                                                  {"k22-1T", {32.96, 131.25, 26.56}}};

double to_gib(std::size_t bytes) {
  return static_cast<double>(bytes) / (1024.0 * 1024 * 1024);
}

// Of the first pipeline rank, which holds most micro-batches.
void korthikanti(std::vector<Memory>& all, const Run& run) {
  const Published& published = kPublished.at(run.model);
  RunConfig config = config_of(run);
  const bool with_both = config.parallelism.sequence;
  if (!with_both) config.activation_checkpoint.mode = Recompute::kNone;
  const MemoryPlan plan = plan_place(config, imagined_gpu(), 0).step.memory;
  if (with_both) {
    all.push_back({&run, "activations, sequence parallel and selective", published.with_both,
                   to_gib(plan.activations())});
    return;
  }
  all.push_back({&run, "parameters and optimizer", published.state,
                 to_gib(plan.weights + plan.masters + plan.gradients + plan.optimizer)});
  all.push_back(
      {&run, "activations, nothing recomputed", published.plain, to_gib(plan.activations())});
}

}  // namespace

std::vector<Memory> published_memory(const std::vector<Run>& runs) {
  std::vector<Memory> all;
  for (const Run& run : runs) {
    if (run.group == "Korthikanti") korthikanti(all, run);
    if (run.gib > 0) {
      const LayoutPlan plan = plan_layout(config_of(run), imagined_gpu());
      all.push_back({&run, "all of the largest rank", run.gib, to_gib(plan.most_device_bytes())});
    }
  }
  return all;
}

}  // namespace trireme::published
