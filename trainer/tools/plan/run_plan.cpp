#include "trainer/tools/plan/run_plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "model/base/human.h"
#include "parallel/expert/expert_rounds.h"
#include "parallel/pipeline/registry.h"
#include "trainer/config/batch_size.h"
#include "trainer/tools/plan/device/matmul_format.h"
#include "trainer/tools/plan/estimate/time_tree.h"
#include "trainer/tools/plan/memory_tree.h"

namespace trireme {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 17> kAxisOfGroup{
    {{"tensor", "tensor"},
     {"key_value", "tensor"},
     {"pipeline_down", "pipeline"},
     {"pipeline_up", "pipeline"},
     {"pipeline_ends", "pipeline"},
     {"context", "context"},
     {"context_heads", "context"},
     {"context_between", "context"},
     {"context_back", "context"},
     {"data", "data"},
     {"data_shard", "data"},
     {"data_replicate", "data"},
     {"expert", "expert"},
     {"expert_shard", "data"},
     {"expert_replicate", "data"},
     {"state", "norms"},
     {"all", "norms"}}};

double sent_along(const Traffic& sent, std::string_view axis) {
  double bytes = 0;
  for (const auto& [group, of] : kAxisOfGroup) {
    const auto found = sent.find(group);
    if (of == axis && found != sent.end()) bytes += found->second.bytes;
  }
  return bytes;
}

std::vector<AxisPlan> traffic_of(const LayoutPlan& layout, const StepEstimate& estimate) {
  std::vector<AxisPlan> all;
  for (const char* axis : kTrafficAxes) {
    AxisPlan plan{.axis = axis, .seconds = {}, .hidden = {}};
    for (const PipelinePlace& place : layout.places) {
      plan.bytes = std::max(plan.bytes, sent_along(place.step.sent, axis));
    }
    for (const AxisTraffic& estimated : estimate.traffic) {
      if (estimated.axis != axis) continue;
      plan.seconds = estimated.seconds;
      plan.hidden = estimated.hidden;
      if (plan.axis == "host") plan.bytes = estimated.bytes;
    }
    if (plan.bytes > 0) all.push_back(std::move(plan));
  }
  return all;
}

std::optional<ExpertPlan> experts_of(const RunConfig& config, double imbalance) {
  const ParallelismConfig& layout = config.parallelism;
  if (layout.expert == 1) return std::nullopt;
  const ModelConfig& model = config.model;
  const ExpertBuffer buffer{
      layout.expert, model.num_experts, model.num_experts_per_tok,
      config.training.local_batch_size * config.training.seq_len / layout.context,
      layout.expert_buffer_factor};
  return ExpertPlan{.experts = model.num_experts / layout.expert,
                    .of = model.num_experts,
                    .rows = buffer.pairs(),
                    .planned = buffer.capacity(),
                    .most = buffer.most(),
                    .most_rounds = buffer.most_rounds(),
                    .imbalance = imbalance};
}

GoodputPlan goodput_of(const RunPlan& plan, const FailureOptions& failures) {
  std::size_t state = 0;
  for (const PipelinePlace& place : plan.layout.places) {
    state = std::max(state, place.step.state_bytes);
  }
  const SavedRun run{.config = plan.config,
                     .network = plan.device.network,
                     .step_seconds = plan.estimate.seconds,
                     .state_bytes = static_cast<double>(state),
                     .checkpoint_bytes = static_cast<double>(plan.model.checkpoint_bytes)};
  return plan_goodput(run, failures, total_steps(plan.config), plan.seconds);
}

std::vector<InferencePlan> inference_of(const RunPlan& plan, double inference_tokens) {
  if (plan.config.model.num_experts > 0) {
    throw ConfigError(
        "--inference-tokens: the scaling laws are of dense models; this one has experts");
  }
  const TrainingBudget own{static_cast<double>(plan.model.parameters), plan.tokens};
  std::vector<InferencePlan> all;
  for (const LossFit& fit : kLossFits) {
    const TrainingBudget best =
        fit.cheapest(fit.loss(own.parameters, own.tokens), inference_tokens);
    all.push_back({.source = fit.source,
                   .best = best,
                   .least = best.flops(inference_tokens),
                   .own = own.flops(inference_tokens)});
  }
  return all;
}

std::vector<LengthPlan> lengths_of(const RunConfig& config, const DeviceProfile& profile,
                                   Device device, double imbalance) {
  std::vector<LengthPlan> all;
  const std::vector<SequenceLength> lengths = sequence_lengths(config);
  if (lengths.size() == 1) return all;
  for (const SequenceLength& length : lengths) {
    const RunConfig steps = with_length(config, length);
    all.push_back({.length = length,
                   .seconds = estimate_step(workload_of(steps, imbalance), profile).seconds,
                   .device_bytes = plan_layout(steps, device).most_device_bytes()});
  }
  return all;
}

// Of the steps [begin, end), of one sequence length. Those of a smaller batch are shorter but less
// efficient, so each batch size is estimated.
double seconds_of_steps(const RunConfig& config, const DeviceProfile& profile, double imbalance,
                        double of_full_step, std::int64_t begin, std::int64_t end) {
  double seconds = 0;
  const std::vector<BatchSize>& ramp = config.training.rampup_batch_size;
  for (std::size_t i = 0; i + 1 < ramp.size(); ++i) {
    const std::int64_t until = std::clamp(ramp[i + 1].from_step, begin, end);
    RunConfig shorter = config;
    shorter.training.global_batch_size = ramp[i].sequences;
    seconds += static_cast<double>(until - begin) *
               estimate_step(workload_of(shorter, imbalance), profile).seconds;
    begin = until;
  }
  return seconds + static_cast<double>(end - begin) * of_full_step;
}

double seconds_of_run(const RunPlan& plan, double imbalance) {
  const std::int64_t end = total_steps(plan.config) + 1;
  if (plan.lengths.empty()) {
    return seconds_of_steps(plan.config, plan.device, imbalance, plan.estimate.seconds, 1, end);
  }
  double seconds = 0;
  for (std::size_t i = 0; i < plan.lengths.size(); ++i) {
    const auto& [length, of_full_step, bytes] = plan.lengths[i];
    const bool is_last = i + 1 == plan.lengths.size();
    const std::int64_t until = is_last ? end : std::min(plan.lengths[i + 1].length.from_step, end);
    if (length.from_step >= until) continue;
    seconds += seconds_of_steps(with_length(plan.config, length), plan.device, imbalance,
                                of_full_step, length.from_step, until);
  }
  return seconds;
}

Explanation explanation_of(const RunPlan& plan, const Workload& work, const StepOps& ops) {
  const int largest = largest_place(plan.layout);
  // The memory is that of several lengths, the ops are those of the first; and of the config, the
  // ops may be in another format.
  const bool is_of_ops = plan.lengths.empty() && !assumes_format(plan.device);
  const StepOps* const saved = is_of_ops ? &ops : nullptr;
  return {.time = time_tree(work, ops, plan.device, plan.estimate),
          .memory = memory_tree(plan.layout.places[static_cast<std::size_t>(largest)], work, saved),
          .largest_place = largest};
}

}  // namespace

double usable_bytes(const DeviceProfile& profile, Device device, std::int64_t ranks) {
  if (device.is_cuda()) {
    return profile.memory_bytes -
           static_cast<double>(device_reserve(static_cast<std::size_t>(profile.memory_bytes)));
  }
  return static_cast<double>(available_memory({}, static_cast<int>(ranks)));
}

double RunPlan::parameters_of_blocks() const {
  const ModelConfig& m = config.model;
  const std::int64_t tables = m.tie_word_embeddings ? 1 : 2;
  return static_cast<double>(model.parameters - tables * m.vocab_size * m.hidden_size);
}

RunPlan plan_run(const RunConfig& config, const DeviceProfile& profile, Device device,
                 const PlanOptions& options) {
  const double imbalance = options.expert_imbalance;
  RunPlan plan{.config = config,
               .device = profile,
               .available = usable_bytes(profile, device, world_size(config.parallelism)),
               .model = plan_model(config),
               .layout = plan_layout(config, device),
               .theory = {},
               .estimate = {},
               .traffic = {},
               .experts = experts_of(config, imbalance),
               .goodput = {},
               .inference = {},
               .lengths = lengths_of(config, profile, device, imbalance),
               .explanation = {}};
  const double parameters = static_cast<double>(plan.model.parameters);
  plan.theory = state_theory(config, static_cast<double>(plan.model.checkpoint_bytes) / parameters);
  const Workload work = workload_of(config, imbalance);
  const StepOps ops = record_step(work.spec, work.mesh, profile);
  plan.estimate = estimate_step(work, ops, profile);
  if (options.explain) plan.explanation = explanation_of(plan, work, ops);
  plan.traffic = traffic_of(plan.layout, plan.estimate);
  const Timeline equal =
      simulate(plan.estimate.schedule, ActionCosts::unit(plan.estimate.schedule.stages));
  plan.bubble_equal = equal.idle_fraction();
  plan.overhead_equal = equal.overhead();
  plan.useful_flops = static_cast<double>(config.training.global_batch_size) *
                      (plan.model.useful.matmul + plan.model.useful.attention_causal);
  plan.tokens_per_second = plan.estimate.tokens_per_second(work);
  const bool is_float32 = work.numbers() == NumberFormat::kFloat32;
  plan.mfu_peak = profile.rate(is_float32 ? NumberFormat::kFloat32 : NumberFormat::kHalf).peak;
  plan.mfu = plan.useful_flops / (plan.estimate.seconds * plan.ranks() * plan.mfu_peak);
  const std::int64_t end = total_steps(config) + 1;
  plan.tokens = static_cast<double>(tokens_before_step(config, end));
  plan.seconds = seconds_of_run(plan, imbalance);
  if (options.failures.are_known()) plan.goodput = goodput_of(plan, options.failures);
  if (options.inference_tokens > 0) plan.inference = inference_of(plan, options.inference_tokens);
  plan.elapsed = plan.seconds / (plan.goodput ? plan.goodput->configured.shares.useful : 1);
  plan.device_hours = plan.elapsed * plan.ranks() / 3600;
  plan.cost = plan.device_hours * options.price;
  return plan;
}

}  // namespace trireme
