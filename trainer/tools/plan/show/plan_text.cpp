#include "trainer/tools/plan/show/plan_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "model/base/human.h"
#include "trainer/config/batch_size.h"
#include "trainer/config/layout_text.h"
#include "trainer/tools/plan/device/matmul_format.h"
#include "trainer/tools/plan/scaling_laws.h"
#include "trainer/tools/plan/show/goodput_text.h"
#include "trainer/tools/plan/show/schedule_picture.h"

namespace trireme {
namespace {

std::string bytes_text(double bytes) {
  return human_bytes(static_cast<std::uint64_t>(std::max(bytes, 0.0)));
}

std::string flops_text(const RunPlan& plan) {
  const Tally& useful = plan.model.useful;
  const double tokens = static_cast<double>(plan.config.training.seq_len);
  return fmt::format(
      "{:.4g} GFLOP per token with causal attention, {:.4g} with full attention; 6N alone {:.4g} "
      "(N = {})",
      (useful.matmul + useful.attention_causal) / tokens * 1e-9,
      (useful.matmul + useful.attention_full) / tokens * 1e-9, useful.matmul / tokens * 1e-9,
      human_count(static_cast<double>(plan.model.matrix_parameters)));
}

std::string step_flops_text(const RunPlan& plan) {
  return fmt::format("{:.4g} PFLOP useful, {:.4g} executed", plan.useful_flops * 1e-15,
                     plan.layout.issued_flops * 1e-15);
}

// " (6.4 s to 8.1 s, 90 %)": where nine of ten such predictions end.
std::string band_text(const RunPlan& plan) {
  const TimeBand& band = plan.device.band;
  if (band.most == 0) return "";
  return fmt::format(" ({} to {}, 90 %)", human_duration(band.least * plan.estimate.seconds),
                     human_duration(band.most * plan.estimate.seconds));
}

std::string step_text(const RunPlan& plan) {
  const TimeParts& parts = plan.estimate.parts;
  std::string text = human_duration(plan.estimate.seconds) + band_text(plan) + ":";
  for (const TimePart& part : kTimeParts) {
    const double share = 100 * (parts.*part.seconds) / plan.estimate.seconds;
    if (share >= 0.05)
      text += fmt::format("{}{} {:.1f} %", text.back() == ':' ? " " : ", ", part.name, share);
  }
  return text;
}

std::string bubble_text(const RunPlan& plan) {
  const Timeline& timeline = plan.estimate.timeline;
  return fmt::format(
      "idle fraction of the total {:.1f} %, overhead over the ideal {:.1f} %; with equal stages "
      "and free communication {:.1f} % and {:.1f} %",
      100 * timeline.idle_fraction(), 100 * timeline.overhead(), 100 * plan.bubble_equal,
      100 * plan.overhead_equal);
}

std::string memory_text(const RunPlan& plan) {
  const double most = static_cast<double>(plan.layout.most_device_bytes());
  std::string text =
      fmt::format("{} on the largest rank, {} available: {}", bytes_text(most),
                  bytes_text(plan.available), plan.fits() ? "it fits" : "IT DOES NOT FIT");
  if (const std::size_t host = plan.layout.most_host_bytes(); host > 0) {
    text += fmt::format("; plus {} of host memory per rank", human_bytes(host));
  }
  return text;
}

std::string theory_text(const RunPlan& plan) {
  const auto in_total = [&](const StateTheory& theory) {
    return fmt::format("{:.3g} + {:.3g} + {:.3g} bytes per parameter, {}", theory.weights,
                       theory.gradients, theory.optimizer,
                       bytes_text(theory.bytes(plan.config.model, plan.config.parallelism)));
  };
  return fmt::format("weights + gradients + optimizer per rank: {}; by Rajbhandari et al. {}",
                     in_total(plan.theory), in_total(kPaperState));
}

std::string budget_text(const RunPlan& plan, const PlanOptions& options) {
  std::string text =
      fmt::format("{} tokens in {} steps: {:.3g} days, {} {}-hours", human_count(plan.tokens),
                  total_steps(plan.config), plan.elapsed / 86400, human_count(plan.device_hours),
                  plan.layout.device.is_cuda() ? "GPU" : "rank");
  if (plan.goodput) {
    text += fmt::format(" at {:.2f} % goodput", 100 * plan.goodput->configured.shares.useful);
  }
  if (options.price > 0) {
    text += fmt::format("; costs {:.6g}, {:.4g} per million tokens", plan.cost,
                        plan.cost / plan.tokens * 1e6);
  }
  return text;
}

std::string experts_text(const ExpertPlan& experts) {
  std::string text = fmt::format(
      "{} of {} per rank; memory for {} rows at once, {} with even loads; at most {} in {}, if "
      "every token chooses experts of one rank; step time ",
      experts.experts, experts.of, grouped(experts.planned), grouped(experts.rows),
      grouped(experts.most), counted(experts.most_rounds, "round"));
  if (experts.imbalance == 1) return text + "with even loads (--expert-imbalance)";
  return text +
         fmt::format("with {:.4g} times the mean load on the busiest rank", experts.imbalance);
}

std::string stages_text(const RunPlan& plan) {
  std::string text;
  for (const LengthPlan& stage : plan.lengths) {
    text += fmt::format("{}{} from step {} on: {} per step, {}", text.empty() ? "" : "; ",
                        counted(stage.length.seq_len, "token"), stage.length.from_step,
                        human_duration(stage.seconds), human_bytes(stage.device_bytes));
  }
  return text + "; the rows above are of the first, but for memory, run and tokens";
}

std::string ratio_text(const RunPlan& plan) {
  const auto parameters = static_cast<double>(plan.model.parameters);
  std::string text = fmt::format(
      "{:.3g} per parameter; compute-optimal is {:.0f} (Hoffmann et al. 2022, "
      "approaches 1 and 2)",
      plan.tokens / parameters, kTokensPerParameter);
  for (const LossFit& fit : kLossFits) {
    text += fmt::format(", {:.3g} ({})", fit.optimal_ratio(parameters, plan.tokens), fit.source);
  }
  return text;
}

std::string loss_text(const RunPlan& plan) {
  std::string text =
      fmt::format("{:.3f} by {}", kaplan_loss(plan.parameters_of_blocks(), plan.tokens), kKaplan);
  for (const LossFit& fit : kLossFits) {
    text +=
        fmt::format(", {:.3f} by {}",
                    fit.loss(static_cast<double>(plan.model.parameters), plan.tokens), fit.source);
  }
  return text + " (nats per token; scaling laws fitted to other data and tokenizers)";
}

std::string inference_text(const InferencePlan& plan, double tokens) {
  return fmt::format(
      "{:.3g} FLOP in training and {} tokens of inference, {:.4g} times the least for this loss: "
      "{} parameters on {} tokens ({})",
      plan.own, human_count(tokens), plan.own / plan.least, human_count(plan.best.parameters),
      human_count(plan.best.tokens), plan.source);
}

std::string traffic_text(const RunPlan& plan) {
  std::string text = "communication: bytes sent by a rank per step\n";
  for (const AxisPlan& axis : plan.traffic) {
    text += fmt::format("  {:<9} {:>11}", axis.axis, bytes_text(axis.bytes));
    if (axis.seconds && *axis.seconds > 0) {
      text += fmt::format("  {:>8}, {:.0f} % overlapped", human_duration(*axis.seconds),
                          100 * *axis.hidden / *axis.seconds);
    }
    text += "\n";
  }
  return text;
}

}  // namespace

std::string model_name(const RunConfig& config) {
  return config.flavor.empty() ? config.model.model_type : config.flavor;
}

std::vector<PlanRow> plan_rows(const RunPlan& plan, const PlanOptions& options) {
  const TrainingConfig& training = plan.config.training;
  std::vector<PlanRow> rows{
      {"parameters", grouped(plan.model.parameters) + active_text(plan.config.model)},
      {"FLOPs", flops_text(plan)},
      {"", step_flops_text(plan) + " per step"},
      {"ranks", layout_text(plan.config.parallelism)},
      {"layers",
       fmt::format("{} per pipeline stage", fmt::join(plan.estimate.layers_per_stage, " + "))},
      {"batch", fmt::format("{} of {} = {} of {} per data-parallel rank",
                            counted(training.global_batch_size, "sequence"),
                            counted(training.seq_len, "token"),
                            counted(micro_batches_per_step(plan.config), "micro-batch"),
                            training.local_batch_size)},
      {"device", fmt::format("{}: {}", plan.device.name, plan.device.source)},
      {"step", step_text(plan)},
      {"speed", fmt::format("{} tokens/s, {} per rank; MFU {:.1f} % of {} in {}",
                            human_count(plan.tokens_per_second),
                            human_count(plan.tokens_per_second / plan.ranks()), 100 * plan.mfu,
                            human_count(plan.mfu_peak) + "FLOP/s",
                            plan.config.training.dtype == "float32" ? "float32" : "bfloat16")},
      {"bubble", bubble_text(plan)},
      {"run", budget_text(plan, options)},
      {"tokens", ratio_text(plan)},
      {"loss", loss_text(plan)},
      {"checkpoint", fmt::format("{} each", human_bytes(plan.model.checkpoint_bytes))},
      {"memory", memory_text(plan)},
      {"theory", theory_text(plan)}};
  if (plan.config.parallelism.pipeline == 1) {
    std::erase_if(
        rows, [](const PlanRow& row) { return row.first == "bubble" || row.first == "layers"; });
  }
  if (assumes_format(plan.device)) rows.emplace_back("matmuls", assumption_text(plan.device));
  if (plan.experts) rows.emplace_back("experts", experts_text(*plan.experts));
  if (!training.rampup_batch_size.empty()) rows.emplace_back("ramp", ramp_text(training));
  if (!plan.lengths.empty()) rows.emplace_back("stages", stages_text(plan));
  if (plan.goodput) {
    for (PlanRow& row : goodput_rows(plan)) rows.push_back(std::move(row));
  }
  for (const InferencePlan& inference : plan.inference) {
    rows.emplace_back(&inference == plan.inference.data() ? "inference" : "",
                      inference_text(inference, options.inference_tokens));
  }
  return rows;
}

std::string plan_text(const RunPlan& plan, const PlanOptions& options, const Canvas& canvas) {
  std::string text =
      fmt::format("{} on {} x {}: prediction, nothing was run\n\n", model_name(plan.config),
                  world_size(plan.config.parallelism), plan.device.name);
  for (const auto& [key, value] : plan_rows(plan, options)) {
    text += fmt::format("{:<11} {}\n", key, value);
  }
  const auto part = [&](const std::string& more) { text.append("\n").append(more); };
  if (!plan.traffic.empty()) part(traffic_text(plan));
  part(memory_bars(plan.layout, plan.available, canvas));
  if (plan.config.parallelism.pipeline > 1) {
    part(schedule_picture(plan.estimate.schedule, plan.estimate.timeline, canvas));
  }
  return text;
}

}  // namespace trireme
