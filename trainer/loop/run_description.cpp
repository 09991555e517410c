#include "trainer/loop/run_description.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>

#include "trainer/telemetry/human.h"

namespace trireme {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string classes_text(const MemoryPlan& memory) {
  std::string text;
  for (const auto& [name, bytes] : memory.classes()) {
    if (bytes == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, human_bytes(bytes));
  }
  return text;
}

}  // namespace

RunDescription describe_run(const RunConfig& config, const EngineSpec& spec, const EnginePlan& plan,
                            const RunFacts& facts) {
  const std::string model = config.flavor.empty() ? config.model.model_type : config.flavor;
  const TrainingConfig& training = config.training;
  const std::int64_t steps = total_steps(config);
  const auto step_tokens = static_cast<double>(tokens_per_step(config));
  const double flops = plan.useful.matmul + plan.useful.attention_causal;
  RunDescription run;
  run.rows = {{"run folder", facts.folder.string()},
              {"model", fmt::format("{}, {} parameters", model, grouped(plan.parameters))},
              {"weights", fmt::format("{} (XXH3 of all parameters)", facts.weights)},
              {"device", fmt::format("cpu, {} threads, {:.0f} GFLOP/s measured on a matrix product",
                                     facts.threads, facts.matrix_peak * 1e-9)},
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
                                    flops * 1e-9 / step_tokens)}};
  run.details = {{"model", model},
                 {"parameters", plan.parameters},
                 {"device", "cpu"},
                 {"ranks", 1},
                 {"threads", facts.threads},
                 {"host", host_name()},
                 {"version", TRIREME_VERSION},
                 {"total_steps", steps},
                 {"weights", facts.weights},
                 {"memory_plan_bytes", plan.memory.total()}};
  return run;
}

}  // namespace trireme
