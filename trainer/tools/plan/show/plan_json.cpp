#include "trainer/tools/plan/show/plan_json.h"

#include "trainer/config/value_text.h"
#include "trainer/tools/plan/device/matmul_format.h"
#include "trainer/tools/plan/scaling_laws.h"
#include "trainer/tools/plan/show/explain.h"
#include "trainer/tools/plan/show/goodput_text.h"
#include "trainer/tools/plan/show/plan_text.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

Json places_json(const LayoutPlan& plan) {
  Json places = Json::array();
  for (const PipelinePlace& place : plan.places) {
    Json classes;
    for (const auto& [name, bytes] : place.step.memory.classes()) classes[name] = bytes;
    places.push_back({{"stages", place.step.stages},
                      {"micro_batches_in_flight", place.step.memory.slots()},
                      {"bytes", place.step.memory.total()},
                      {"classes", classes},
                      {"pinned_bytes", place.step.memory.host_total()},
                      {"snapshot_bytes", place.snapshot_bytes}});
  }
  return places;
}

Json traffic_json(const RunPlan& plan) {
  Json traffic;
  for (const AxisPlan& axis : plan.traffic) {
    Json entry;
    entry["bytes"] = axis.bytes;
    if (axis.seconds) entry["seconds"] = *axis.seconds;
    if (axis.hidden) entry["hidden_seconds"] = *axis.hidden;
    traffic[axis.axis] = entry;
  }
  return traffic;
}

Json loss_json(const RunPlan& plan) {
  Json losses;
  losses[kKaplan] = kaplan_loss(plan.parameters_of_blocks(), plan.tokens);
  for (const LossFit& fit : kLossFits) {
    losses[fit.source] = fit.loss(static_cast<double>(plan.model.parameters), plan.tokens);
  }
  return losses;
}

Json step_json(const RunPlan& plan) {
  Json parts = Json::object();
  for (const TimePart& part : kTimeParts) parts[part.key] = plan.estimate.parts.*part.seconds;
  const TimeBand& band = plan.device.band;
  const auto bound = [&](double share) {
    return band.most > 0 ? Json(share * plan.estimate.seconds) : Json();
  };
  return {{"seconds", plan.estimate.seconds},
          {"nine_of_ten_from", bound(band.least)},
          {"nine_of_ten_to", bound(band.most)},
          {"parts", parts},
          {"tokens", tokens_per_step(plan.config)},
          {"tokens_per_second", plan.tokens_per_second},
          {"mfu", plan.mfu},
          {"mfu_peak", plan.mfu_peak},
          {"useful_flops", plan.useful_flops},
          {"executed_flops", plan.layout.issued_flops}};
}

}  // namespace

Json layout_json(const ParallelismConfig& layout) {
  return {{"ranks", world_size(layout)},
          {"tensor", layout.tensor},
          {"sequence", layout.sequence},
          {"context", layout.context},
          {"context_method", name_of_value(layout.context_method)},
          {"context_ulysses", layout.context_ulysses},
          {"expert", layout.expert},
          {"pipeline", layout.pipeline},
          {"schedule", layout.schedule},
          {"virtual_stages", layout.virtual_stages},
          {"data_replicate", layout.data_replicate},
          {"data_shard", layout.data_shard},
          {"zero", layout.zero}};
}

Json plan_json(const RunPlan& plan, const PlanOptions& options) {
  const double tokens = static_cast<double>(plan.config.training.seq_len);
  const Tally& useful = plan.model.useful;
  const Timeline& timeline = plan.estimate.timeline;
  Json json{{"model", model_name(plan.config)},
            {"parameters", plan.model.parameters},
            {"active_parameters", active_parameter_count(plan.config.model)},
            {"matrix_parameters", plan.model.matrix_parameters},
            {"flops_per_token",
             {{"causal_attention", (useful.matmul + useful.attention_causal) / tokens},
              {"full_attention", (useful.matmul + useful.attention_full) / tokens},
              {"six_n", useful.matmul / tokens}}},
            {"layout", layout_json(plan.config.parallelism)},
            {"layers_per_stage", plan.estimate.layers_per_stage},
            {"micro_batch", plan.config.training.local_batch_size},
            {"recompute", name_of_value(plan.config.activation_checkpoint.mode)},
            {"micro_batches", micro_batches_per_step(plan.config)},
            {"device", plan.device.name},
            {"step", step_json(plan)},
            {"bubble",
             {{"idle_fraction", timeline.idle_fraction()},
              {"overhead_over_ideal", timeline.overhead()},
              {"idle_fraction_equal_stages", plan.bubble_equal},
              {"overhead_over_ideal_equal_stages", plan.overhead_equal}}},
            {"traffic", traffic_json(plan)},
            {"run",
             {{"steps", total_steps(plan.config)},
              {"tokens", plan.tokens},
              {"seconds", plan.elapsed},
              {"device_hours", plan.device_hours},
              {"tokens_per_parameter", plan.tokens / static_cast<double>(plan.model.parameters)},
              {"loss", loss_json(plan)}}},
            {"checkpoint_bytes", plan.model.checkpoint_bytes},
            {"memory",
             {{"available_bytes", plan.available},
              {"most_bytes", plan.layout.most_device_bytes()},
              {"most_host_bytes", plan.layout.most_host_bytes()},
              {"fits", plan.fits()},
              {"places", places_json(plan.layout)}}}};
  if (assumes_format(plan.device)) {
    json["matmul_format"] = {{"assumed", name_of(plan.device.narrow)}, {"trainer_runs_it", false}};
  }
  if (options.price > 0) {
    json["run"]["cost"] = plan.cost;
    json["run"]["cost_per_million_tokens"] = plan.cost / plan.tokens * 1e6;
  }
  if (plan.experts) {
    json["experts"] = {
        {"per_rank", plan.experts->experts},        {"even_rows", plan.experts->rows},
        {"planned_rows", plan.experts->planned},    {"most_rows", plan.experts->most},
        {"most_rounds", plan.experts->most_rounds}, {"imbalance", plan.experts->imbalance}};
  }
  for (const LengthPlan& stage : plan.lengths) {
    json["stages"].push_back({{"from_step", stage.length.from_step},
                              {"seq_len", stage.length.seq_len},
                              {"step_seconds", stage.seconds},
                              {"most_bytes", stage.device_bytes}});
  }
  if (plan.goodput) json["goodput"] = goodput_json(plan);
  for (const InferencePlan& inference : plan.inference) {
    json["inference"][inference.source] = {{"parameters", inference.best.parameters},
                                           {"tokens", inference.best.tokens},
                                           {"flops", inference.least},
                                           {"flops_of_this_config", inference.own}};
  }
  if (plan.explanation) json["explain"] = explain_json(plan);
  return json;
}

}  // namespace trireme
