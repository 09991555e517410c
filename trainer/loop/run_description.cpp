#include "trainer/loop/run_description.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <array>

#include "model/device/devices.h"
#include "trainer/telemetry/human.h"

namespace trireme {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

// "cuda:0, NVIDIA H100 80GB HBM3 of 79.1 GiB"
std::string device_text(const RunConfig& config, const RunFacts& facts) {
  if (!facts.device.is_cuda()) return fmt::format("cpu, {} threads", facts.threads);
  const DeviceProperties found = properties_of(facts.device);
  std::string text =
      fmt::format("{}, {} of {}", say(facts.device), found.name, human_bytes(found.memory_bytes));
  if (config.job.device == "auto") text += " (found by job.device = \"auto\")";
  if (facts.ranks_on_device > 1) text += fmt::format(", shared by {} ranks", facts.ranks_on_device);
  return text;
}

std::string classes_text(const MemoryPlan& memory) {
  std::string text;
  for (const auto& [name, bytes] : memory.classes()) {
    if (bytes == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, human_bytes(bytes));
  }
  if (memory.host_total() > 0) {
    text += fmt::format("; and {} pinned on the host", human_bytes(memory.host_total()));
  }
  return text;
}

// "4 = pipeline 2 (1F1B) x data shard 2 (ZeRO-1) x tensor 2 with sequence parallelism"
std::string layout_text(const ParallelismConfig& layout) {
  std::string text;
  const auto axis = [&](std::int64_t degree, const std::string& what) {
    if (degree > 1) text += (text.empty() ? " = " : " x ") + what;
  };
  const std::string stages =
      layout.virtual_stages > 1 ? fmt::format(", {} stages each", layout.virtual_stages) : "";
  axis(layout.pipeline,
       fmt::format("pipeline {} ({}{})", layout.pipeline, layout.schedule, stages));
  axis(layout.data_replicate, fmt::format("data replicate {}", layout.data_replicate));
  axis(layout.data_shard, fmt::format("data shard {} (ZeRO-{})", layout.data_shard, layout.zero));
  axis(layout.tensor, fmt::format("tensor {}", layout.tensor));
  if (layout.sequence) text += " with sequence parallelism";
  return fmt::format("{}{}", world_size(layout), text);
}

}  // namespace

RunDescription describe_run(const RunConfig& config, const EngineSpec& spec, const EnginePlan& plan,
                            const RankGroups& groups, const RunFacts& facts) {
  const std::string model = config.flavor.empty() ? config.model.model_type : config.flavor;
  const TrainingConfig& training = config.training;
  const std::int64_t steps = total_steps(config);
  const auto step_tokens = static_cast<double>(tokens_per_step(config));
  RunDescription run;
  run.rows = {{"run folder", facts.folder.string()},
              {"model", fmt::format("{}, {} parameters", model, grouped(plan.parameters))},
              {"weights", fmt::format("{} (of all parameters, in any layout)", facts.weights)},
              {"device", fmt::format("{}, {:.0f} GFLOP/s measured on a matrix product",
                                     device_text(config, facts), facts.matrix_peak * 1e-9)},
              {"batch", fmt::format("{} sequences of {} tokens = {} micro-batches of {}",
                                    training.global_batch_size, training.seq_len,
                                    spec.micro_batches, spec.micro_batch)},
              {"steps", fmt::format("{} of {} tokens, {} tokens in all", steps,
                                    grouped(tokens_per_step(config)),
                                    human_count(step_tokens * static_cast<double>(steps)))},
              {"data", fmt::format("{} tokens, {} samples an epoch", grouped(facts.training_tokens),
                                   grouped(facts.samples_per_epoch))},
              {"memory",
               fmt::format("{}: {}", human_bytes(plan.memory.total()), classes_text(plan.memory))},
              {"FLOPs", fmt::format("{:.3f} GFLOP a token (causal attention counted as computed)",
                                    facts.flops_per_step * 1e-9 / step_tokens)}};
  run.details = {{"model", model},
                 {"parameters", plan.parameters},
                 {"device", say(facts.device)},
                 {"ranks", groups.all->size()},
                 {"layout", layout_of(config.parallelism)},
                 {"threads", facts.threads},
                 {"host", host_name()},
                 {"version", TRIREME_VERSION},
                 {"total_steps", steps},
                 {"weights", facts.weights},
                 {"memory_plan_bytes", plan.memory.total()},
                 {"host_memory_plan_bytes", plan.memory.host_total()}};
  if (groups.all->size() > 1) {
    run.rows.insert(run.rows.begin() + 1, {"ranks", layout_text(config.parallelism)});
    run.rows.insert(run.rows.begin() + 2, {"mapping", groups.mapping});
    run.rows.insert(run.rows.begin() + 3, {"messages", groups.transport});
    if (config.parallelism.pipeline > 1) {
      run.rows.insert(
          run.rows.begin() + 4,
          {"bubble",
           fmt::format("{:.1f} % of the pipeline's time, {:.1f} % over the ideal, were its "
                       "stages equal",
                       100 * facts.bubble, 100 * facts.bubble_overhead)});
      run.rows.insert(
          run.rows.begin() + 4,
          {"layers", fmt::format("{} in the stages", fmt::join(facts.layers_per_stage, " + "))});
    }
  }
  if (spec.factors == Factors::kFloat8) {
    run.rows.emplace_back(
        "products", facts.device.is_cuda()
                        ? "the blocks' in float8; MFU is of the peak measured in bfloat16"
                        : "the blocks' of float8 values, in bfloat16: to look at the numbers");
  }
  if (!groups.warning.empty()) run.rows.emplace_back("warning", groups.warning);
  return run;
}

nlohmann::json layout_of(const ParallelismConfig& layout) {
  return {{"ranks", world_size(layout)},
          {"tensor", layout.tensor},
          {"sequence", layout.sequence},
          {"pipeline", layout.pipeline},
          {"virtual_stages", layout.virtual_stages}};
}

}  // namespace trireme
