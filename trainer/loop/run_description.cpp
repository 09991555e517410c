#include "trainer/loop/run_description.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "model/base/host_name.h"
#include "model/base/human.h"
#include "model/device/devices.h"
#include "trainer/config/batch_size.h"
#include "trainer/config/layout_text.h"
#include "trainer/config/sequence_length.h"

namespace trireme {
namespace {

// "cuda:0, NVIDIA H100 80GB HBM3 of 79.1 GiB"
std::string device_text(const RunConfig& config, const RunFacts& facts) {
  if (!facts.device.is_cuda()) return fmt::format("cpu, {}", counted(facts.threads, "thread"));
  const DeviceProperties found = properties_of(facts.device);
  std::string text =
      fmt::format("{}, {} of {}", say(facts.device), found.name, human_bytes(found.memory_bytes));
  if (config.job.device == "auto") text += " (found by job.device = \"auto\")";
  if (facts.ranks_on_device > 1)
    text += fmt::format(", shared by {}", counted(facts.ranks_on_device, "rank"));
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

nlohmann::ordered_json classes_json(const MemoryPlan& memory) {
  nlohmann::ordered_json classes;
  for (const auto& [name, bytes] : memory.classes()) {
    if (bytes > 0) classes[name] = bytes;
  }
  return classes;
}

const std::string& name_of_model(const RunConfig& config) {
  return config.flavor.empty() ? config.model.model_type : config.flavor;
}

std::vector<Console::Row> rows_of(const RunConfig& config, const EngineSpec& spec,
                                  const EnginePlan& plan, const RunFacts& facts) {
  const TrainingConfig& training = config.training;
  const std::int64_t steps = total_steps(config);
  const auto tokens_of_step = static_cast<double>(tokens_per_step(spec));
  const bool has_lengths = sequence_lengths(config).size() > 1;
  const char* const up_to = training.rampup_batch_size.empty() && !has_lengths ? "" : "up to ";
  return {
      {"run folder", facts.folder.string()},
      {"model", fmt::format("{}, {} parameters{}", name_of_model(config), grouped(plan.parameters),
                            active_text(config.model))},
      {"weights", fmt::format("{} (hash of all parameters)", facts.weights)},
      {"device", fmt::format("{}, {:.0f} GFLOP/s measured on a matrix product",
                             device_text(config, facts), facts.matrix_peak * 1e-9)},
      {"batch", fmt::format("{} of {} = {} of {}", counted(training.global_batch_size, "sequence"),
                            counted(spec.training.seq_len, "token"),
                            counted(spec.micro_batches, "micro-batch"), training.local_batch_size)},
      {"steps",
       fmt::format("{} of {}{} tokens, {} tokens in total", steps, up_to,
                   grouped(training.global_batch_size * longest_seq_len(config)),
                   human_count(static_cast<double>(tokens_before_step(config, steps + 1))))},
      {"data", fmt::format("{} tokens, {} samples per epoch", grouped(facts.training_tokens),
                           grouped(facts.samples_per_epoch))},
      {"memory",
       fmt::format("{}: {}", human_bytes(plan.memory.total()), classes_text(plan.memory))},
      {"FLOPs", fmt::format("{} per token (causal attention counted as computed)",
                            human_count(facts.flops_per_step / tokens_of_step))}};
}

// After the first row.
void insert_layout(std::vector<Console::Row>& rows, const RunConfig& config,
                   const RankGroups& groups, const RunFacts& facts) {
  rows.insert(rows.begin() + 1, {"ranks", layout_text(config.parallelism)});
  rows.insert(rows.begin() + 2, {"mapping", groups.mapping});
  rows.insert(rows.begin() + 3, {"messages", groups.transport});
  if (config.parallelism.pipeline > 1) {
    rows.insert(rows.begin() + 4,
                {"bubble",
                 fmt::format("{:.1f} % of the pipeline's time, {:.1f} % over the ideal, for equal "
                             "stages",
                             100 * facts.bubble, 100 * facts.bubble_overhead)});
    rows.insert(rows.begin() + 4,
                {"layers", fmt::format("{} per stage", fmt::join(facts.layers_per_stage, " + "))});
  }
}

}  // namespace

RunDescription describe_run(const RunConfig& config, const EngineSpec& spec, const EnginePlan& plan,
                            const RankGroups& groups, const RunFacts& facts) {
  RunDescription run;
  run.rows = rows_of(config, spec, plan, facts);
  run.details = {{"model", name_of_model(config)},
                 {"parameters", plan.parameters},
                 {"device", say(facts.device)},
                 {"ranks", groups.all->size()},
                 {"layout", layout_of(config.parallelism)},
                 {"threads", facts.threads},
                 {"host", own_host_name()},
                 {"version", TRIREME_VERSION},
                 {"total_steps", total_steps(config)},
                 {"weights", facts.weights},
                 {"memory_plan_bytes", plan.memory.total()},
                 {"memory_plan", classes_json(plan.memory)},
                 {"host_memory_plan_bytes", plan.memory.host_total()}};
  if (!config.training.rampup_batch_size.empty())
    run.rows.emplace_back("ramp", ramp_text(config.training));
  if (sequence_lengths(config).size() > 1) run.rows.emplace_back("stages", lengths_text(config));
  if (groups.all->size() > 1) insert_layout(run.rows, config, groups, facts);
  if (spec.precision == MatmulPrecision::kFloat8) {
    run.rows.emplace_back("products",
                          facts.device.is_cuda()
                              ? "float8 in the blocks; MFU is relative to the bfloat16 peak"
                              : "float8 values in the blocks, multiplied in bfloat16 (emulated)");
  }
  if (config.model.router_force_load_balancing) {
    run.rows.emplace_back("warning",
                          "tokens choose experts in turn (model.router_force_load_balancing), for "
                          "benchmarks: the model learns no routing");
  }
  if (!groups.warning.empty()) run.rows.emplace_back("warning", groups.warning);
  return run;
}

Timeline predicted_timeline(const Schedule& schedule) {
  return simulate(schedule, ActionCosts::unit(schedule.stages));
}

nlohmann::json layout_of(const ParallelismConfig& layout) {
  return {{"ranks", world_size(layout)},
          {"tensor", layout.tensor},
          {"sequence", layout.sequence},
          {"pipeline", layout.pipeline},
          {"virtual_stages", layout.virtual_stages}};
}

}  // namespace trireme
