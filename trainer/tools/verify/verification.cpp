#include "trainer/tools/verify/verification.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "model/ops/gemm_choices.h"
#include "model/tensor/host_tensor.h"
#include "parallel/comm/team.h"
#include "trainer/tools/verify/finding.h"

namespace trireme::verify {
namespace {

std::vector<int> all_ranks(const World& world) {
  std::vector<int> ranks(world.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

const Engine& any_engine(const Subject& one, const Subject& other) {
  return (one.takes_part() ? one : other).engine();
}

// float64 runs on the CPU.
Device device_of(const RunConfig& config, Device device) {
  return config.training.dtype == "float64" ? Device{} : device;
}

std::vector<std::int64_t> place_of(std::int64_t index, const Shape& shape) {
  std::vector<std::int64_t> at(shape.rank());
  for (int dim = shape.rank() - 1; dim >= 0; --dim) {
    at[dim] = index % shape[dim];
    index /= shape[dim];
  }
  return at;
}

}  // namespace

double ValuePair::relative() const {
  const double difference = std::fabs(value - expected);
  return difference == 0 ? 0 : difference / std::max(std::fabs(expected), 1e-300);
}

Verification::Verification(World& world, Device device, const Inputs& of)
    : world_(world),
      of_(of),
      ranks_(world.split("verify", all_ranks(world))),
      samples_(of.subject, of.synthetic),
      subject_(of.subject, world, device_of(of.subject, device), of.mistake),
      reference_(of.reference, world, device_of(of.reference, device), nullptr),
      tensors_(any_engine(subject_, reference_).model().whole(), of.subject.model),
      comparison_(subject_, reference_, *ranks_, tensors_),
      sampling_(subject_, reference_, *ranks_, tensors_),
      tolerances_(tolerances(of.subject, of.reference)),
      roundings_(roundings(of.subject, of.reference)) {}

Finding Verification::run(std::int64_t steps) {
  Finding finding{.parameters = tensors_.size(),
                  .elements = tensors_.elements(),
                  .tolerances = tolerances_,
                  .steps = {},
                  .difference = {},
                  .not_proven = {}};
  for (const Subject* subject : {&subject_, &reference_}) {
    if (subject->takes_part()) subject->begin();
  }
  if (of_.mistake && subject_.takes_part()) of_.mistake->in_first_weights(subject_);
  share_gemm_choices();
  for (std::int64_t step = 0; step <= steps && !finding.difference; ++step) {
    world_.recorder().set_step(step);
    StepFinding& now = finding.steps.emplace_back();
    now.step = step;
    if (step > 0) {
      const double loss = gradients(subject_, step, /*mistaken=*/true);
      now.loss = both(loss, gradients(reference_, step, /*mistaken=*/false));
      finding.difference = compare_samples(step);
      if (finding.difference) break;
      finding.difference = compare_gradients(step, now);
      if (finding.difference) break;
      comparison_.hand_over_gradients();
      const Engine::StepResult updated = update(subject_, step, /*mistaken=*/true);
      now.grad_norm =
          both(updated.grad_norm, update(reference_, step, /*mistaken=*/false).grad_norm);
      const std::int64_t rounds = updated.routers ? updated.routers->rounds : 1;
      now.expert_rounds = static_cast<std::int64_t>(both(static_cast<double>(rounds), 0).value);
      finding.difference = compare_norms(step, now, updated.grad_norm);
      if (finding.difference) break;
      finding.difference = compare_moments(step);
      if (finding.difference) break;
    }
    finding.difference = compare_weights(step, now);
  }
  if (of_.mistake && !finding.difference) require_mistake();
  if (!finding.difference) finding.not_proven = not_proven(of_.subject, finding.steps);
  return finding;
}

// An injected mistake that never took effect proves nothing.
void Verification::require_mistake() const {
  double made[] = {of_.mistake->was_made() ? 1.0 : 0.0};
  Stream stream;
  ranks_->all_reduce(stream, host_tensor(std::span(made)), Reduce::kMax);
  if (made[0] != 0) return;
  throw on_all_ranks(
      ConfigError(say(Mistake::kVariable, ": the mistake does not apply to this layout or model")));
}

// GEMM libraries are selected on first use and differ in the last bits, so all ranks and both
// layouts use one selection.
void Verification::share_gemm_choices() {
  world_.recorder().set_step(0);
  for (const Subject* subject : {&subject_, &reference_}) {
    if (!subject->takes_part()) continue;
    const std::int64_t valid = samples_.fill(*subject, 1).valid;
    compute_gradients(subject->engine(), valid);
  }
  ops::use_gemm_choices(
      ops::merged_gemm_choices(Team(*ranks_).together([] { return ops::gemm_choices(); })));
}

// Returns the loss, or 0 on a rank without an engine.
double Verification::gradients(const Subject& subject, std::int64_t step, bool mistaken,
                               bool masked) {
  if (!subject.takes_part()) return 0;
  Mistake* const mistake = mistaken ? of_.mistake : nullptr;
  std::uint64_t first = samples_.first_of(step);
  if (mistake) first = mistake->in_first_sample(subject, first);
  const Filled filled = samples_.fill_as_a_run(subject, first);
  if (&subject == &subject_) filled_ = filled;
  std::int64_t valid = filled.valid;
  if (mistake) {
    mistake->in_batch(subject, samples_, step);
    valid = mistake->in_valid_tokens(subject, valid);
  }
  if (!masked) std::ranges::fill(subject.engine().batch().document_start, 0);
  const double loss = compute_gradients(subject.engine(), valid, step);
  if (mistake) mistake->in_gradients(subject);
  return loss;
}

// Without values on a rank without an engine.
Engine::StepResult Verification::update(const Subject& subject, std::int64_t step,
                                        bool mistaken) const {
  if (!subject.takes_part()) return {};
  const std::int64_t number = mistaken && of_.mistake ? of_.mistake->in_update_number(step) : step;
  double rate = subject.config().optimizer.lr;
  if (mistaken && of_.mistake) rate = of_.mistake->in_learning_rate(subject, rate);
  Engine::StepResult updated = apply_update(subject.engine(), rate, number);
  subject.engine().model().finish_publishing();
  if (mistaken && of_.mistake) of_.mistake->in_weights(subject);
  return updated;
}

// Values of rank 0, which is part of both layouts.
ValuePair Verification::both(double of_subject, double of_reference) const {
  double numbers[] = {of_subject, of_reference};
  Stream stream;
  ranks_->broadcast(stream, host_tensor(std::span(numbers)), /*root=*/0);
  return {numbers[0], numbers[1]};
}

std::vector<double> Verification::of_all_ranks(double own) const {
  double one[] = {own};
  std::vector<double> all(ranks_->size());
  Stream stream;
  ranks_->all_gather(stream, host_tensor(std::span(all)), host_tensor(std::span(one)));
  all.resize(subject_.ranks());
  return all;
}

Difference Verification::describe(const std::vector<TensorResult>& results, Quantity quantity,
                                  std::int64_t step) const {
  Difference found;
  found.step = step;
  found.what = name_of(quantity);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const TensorResult& result = results[i];
    if (!result.differs()) continue;
    if (!found.tensor.empty()) {
      found.also.push_back(tensors_[i].name);
      continue;
    }
    found.tensor = tensors_[i].name;
    found.shape = tensors_[i].shape;
    found.wrong = result.wrong;
    found.elements = result.elements;
    if (result.wrong == 0) {  // only the fitted ratio differs
      found.pair = {result.ratio(), 1};
      found.share = found.pair.relative();
      found.allowed = tolerances_.ratio;
      continue;
    }
    found.at = place_of(result.index, found.shape);
    found.rank = result.rank;
    found.pair = {result.value, result.expected};
    found.share = result.difference / std::max(result.scale, 1e-300);
    found.allowed = tolerances_.exact                 ? 0
                    : quantity == Quantity::kGradient ? tolerances_.gradient
                                                      : found.share / result.excess;
  }
  return found;
}

std::optional<Difference> Verification::compare_gradients(std::int64_t step, StepFinding& finding) {
  gradients_ = comparison_.compare({Quantity::kGradient}, tolerances_);
  finding.gradient = StepFinding::of(gradients_, tensors_, /*of_scale=*/true);
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    const double off = std::fabs(gradients_[i].ratio() - 1);
    if (off > finding.ratio.share) finding.ratio = {off, tensors_[i].name};
  }
  const bool loss_differs = !(finding.loss.relative() <= tolerances_.loss);
  if (any_differs(gradients_)) {
    Difference difference = describe(gradients_, Quantity::kGradient, step);
    difference.cause = cause_of_gradients(gradients_, step, finding.loss, difference);
    return difference;
  }
  if (!loss_differs) return std::nullopt;
  Difference difference;
  difference.step = step;
  difference.what = "loss";
  difference.pair = finding.loss;
  difference.share = finding.loss.relative();
  difference.allowed = tolerances_.loss;
  difference.cause = {"loss",
                      fmt::format("all gradients are correct: only the reported loss is reduced "
                                  "or scaled wrong ({:.6g} times the expected value)",
                                  finding.loss.value / finding.loss.expected)};
  return difference;
}

}  // namespace trireme::verify
