#include "trainer/verify/verification.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "checkpoint/team.h"
#include "model/ops/gemm_choices.h"
#include "model/tensor/host_tensor.h"

namespace trireme::verify {
namespace {

std::vector<int> all_ranks(const World& world) {
  std::vector<int> ranks(static_cast<std::size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

const Engine& any_engine(const Subject& one, const Subject& other) {
  return (one.takes_part() ? one : other).engine();
}

// The reference of float64 is computed on the host.
Device device_of(const RunConfig& config, Device device) {
  return config.training.dtype == "float64" ? Device{} : device;
}

StepFinding::Largest largest_of(const std::vector<TensorResult>& results, const Tensors& tensors,
                                bool of_scale) {
  StepFinding::Largest largest;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const TensorResult& result = results[i];
    const double share =
        of_scale ? result.difference / std::max(result.scale, 1e-300) : result.difference;
    if (result.difference == 0 || share <= largest.share) continue;
    largest = {share, tensors[i].name};
  }
  return largest;
}

bool any_differs(const std::vector<TensorResult>& results) {
  return std::any_of(results.begin(), results.end(),
                     [](const TensorResult& result) { return result.differs(); });
}

std::vector<std::int64_t> place_of(std::int64_t index, const Shape& shape) {
  std::vector<std::int64_t> at(static_cast<std::size_t>(shape.rank()));
  for (int dim = shape.rank() - 1; dim >= 0; --dim) {
    at[static_cast<std::size_t>(dim)] = index % shape[dim];
    index /= shape[dim];
  }
  return at;
}

}  // namespace

double Pair::relative() const {
  const double difference = std::fabs(value - expected);
  return difference == 0 ? 0 : difference / std::max(std::fabs(expected), 1e-300);
}

Verification::Verification(World& world, Device device, const Of& of)
    : world_(world),
      of_(of),
      ranks_(world.split("verify", all_ranks(world))),
      samples_(of.subject, of.synthetic),
      subject_(of.subject, world, device_of(of.subject, device), of.mistake),
      reference_(of.reference, world, device_of(of.reference, device), nullptr),
      tensors_(any_engine(subject_, reference_).whole(), of.subject.model),
      comparison_(subject_, reference_, *ranks_, tensors_),
      sampling_(subject_, reference_, *ranks_, tensors_),
      tolerances_(tolerances(of.subject, of.reference)) {}

Finding Verification::run(std::int64_t steps) {
  Finding finding{.parameters = tensors_.size(),
                  .elements = tensors_.elements(),
                  .tolerances = tolerances_,
                  .steps = {},
                  .difference = {}};
  for (const Subject* subject : {&subject_, &reference_}) {
    if (subject->takes_part()) subject->begin();
  }
  if (of_.mistake && subject_.takes_part()) of_.mistake->in_first_weights(subject_);
  share_gemm_choices();
  for (std::int64_t step = 0; step <= steps && !finding.difference; ++step) {
    world_.ledger().set_step(step);
    now_ = tolerances_.in_step(step);
    StepFinding& now = finding.steps.emplace_back();
    now.step = step;
    if (step > 0) {
      const double loss = gradients(subject_, step, /*mistaken=*/true);
      now.loss = both(loss, gradients(reference_, step, /*mistaken=*/false));
      finding.difference = compare_gradients(step, now);
      if (finding.difference) break;
      const double norm = update(subject_, step, /*mistaken=*/true);
      now.grad_norm = both(norm, update(reference_, step, /*mistaken=*/false));
      finding.difference = compare_norms(step, now, norm);
      if (finding.difference) break;
    }
    finding.difference = compare_weights(step, now);
  }
  if (of_.mistake && !finding.difference) require_mistake();
  return finding;
}

// One that is not made proves nothing.
void Verification::require_mistake() const {
  double made[] = {of_.mistake->was_made() ? 1.0 : 0.0};
  Stream stream;
  ranks_->all_reduce(stream, host_tensor(std::span(made)), Reduce::kMax);
  if (made[0] != 0) return;
  throw on_all_ranks(ConfigError(
      say(Mistake::kVariable, ": this layout, or model, has no place for the mistake")));
}

// The first products choose among libraries, which differ in the last bits: all ranks and both
// layouts go by one choice.
void Verification::share_gemm_choices() {
  world_.ledger().set_step(0);
  for (const Subject* subject : {&subject_, &reference_}) {
    if (!subject->takes_part()) continue;
    const std::int64_t valid = samples_.fill(*subject, 1);
    subject->engine().gradients(valid);
  }
  ops::use_gemm_choices(ops::merged_gemm_choices(
      checkpoint::Team(*ranks_).together([] { return ops::gemm_choices(); })));
}

// The loss; of a rank that takes no part, nothing.
double Verification::gradients(const Subject& subject, std::int64_t step, bool mistaken) const {
  if (!subject.takes_part()) return 0;
  std::int64_t valid = samples_.fill(subject, step);
  Mistake* const mistake = mistaken ? of_.mistake : nullptr;
  if (mistake) {
    mistake->in_batch(subject, samples_, step);
    valid = mistake->in_valid_tokens(subject, valid);
  }
  const double loss = subject.engine().gradients(valid, step);
  if (mistake) mistake->in_gradients(subject);
  return loss;
}

// The gradients' norm.
double Verification::update(const Subject& subject, std::int64_t step, bool mistaken) const {
  if (!subject.takes_part()) return 0;
  const std::int64_t number = mistaken && of_.mistake ? of_.mistake->in_update_number(step) : step;
  const double norm = subject.engine().update(subject.config().optimizer.lr, number).grad_norm;
  subject.engine().finish_publishing();
  return norm;
}

// As the first rank has them, which takes part in both.
Pair Verification::both(double of_subject, double of_reference) const {
  double numbers[] = {of_subject, of_reference};
  Stream stream;
  ranks_->broadcast(stream, host_tensor(std::span(numbers)), /*root=*/0);
  return {numbers[0], numbers[1]};
}

std::vector<double> Verification::of_all_ranks(double own) const {
  double one[] = {own};
  std::vector<double> all(static_cast<std::size_t>(ranks_->size()));
  Stream stream;
  ranks_->all_gather(stream, host_tensor(std::span(all)), host_tensor(std::span(one)));
  all.resize(static_cast<std::size_t>(subject_.ranks()));
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
    found.at = place_of(result.index, found.shape);
    found.rank = result.rank;
    found.pair = {result.value, result.expected};
    found.share = result.difference / std::max(result.scale, 1e-300);
    found.allowed = quantity == Quantity::kGradient ? now_.gradient
                                                    : found.share / std::max(result.excess, 1e-300);
    found.wrong = result.wrong;
    found.elements = result.elements;
  }
  return found;
}

std::optional<Difference> Verification::compare_gradients(std::int64_t step, StepFinding& finding) {
  gradients_ = comparison_.compare(Quantity::kGradient, now_, 0);
  finding.gradient = largest_of(gradients_, tensors_, /*of_scale=*/true);
  const bool loss_differs = !(finding.loss.relative() <= now_.loss);
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
  difference.allowed = now_.loss;
  difference.cause = {"loss", fmt::format("every gradient is right: the loss alone is summed up, "
                                          "or divided, otherwise ({:.6g} times as large)",
                                          finding.loss.value / finding.loss.expected)};
  return difference;
}

std::optional<Difference> Verification::compare_weights(std::int64_t step, StepFinding& finding) {
  const double moved = static_cast<double>(step) * of_.subject.optimizer.lr;
  for (const Quantity quantity : {Quantity::kMaster, Quantity::kValue}) {
    const std::vector<TensorResult> results = comparison_.compare(quantity, now_, moved);
    const auto largest = largest_of(results, tensors_, /*of_scale=*/false);
    if (quantity == Quantity::kMaster) finding.weight = largest;
    if (!any_differs(results)) continue;
    Difference difference = describe(results, quantity, step);
    const std::size_t first = tensors_.index(difference.tensor);
    const double tolerance = std::max(moved, 1e-6 * results[first].scale) * 0x1p-4;
    Evidence evidence = sampling_.evidence(first, quantity, tolerance);
    if (step == 1) evidence.before = sampling_.initial(first);
    if (auto cause = cause_of_weight(evidence)) {
      difference.cause = *cause;
    } else if (step == 0) {
      difference.cause = {"first-weights",
                          "before the first step: the first weights are drawn, "
                          "read or split otherwise"};
    } else {
      difference.cause = {"optimizer",
                          fmt::format("its gradients are right{}: the update is not",
                                      step > 1 ? ", and so were the steps before" : "")};
    }
    return difference;
  }
  return std::nullopt;
}

std::optional<Difference> Verification::compare_norms(std::int64_t step, StepFinding& finding,
                                                      double own) {
  const std::vector<double> norms = of_all_ranks(own);
  Pair worst = finding.grad_norm;
  int rank = 0;
  for (std::size_t r = 0; r < norms.size(); ++r) {
    const Pair pair{norms[r], worst.expected};
    if (pair.relative() <= worst.relative()) continue;
    worst = pair;
    rank = static_cast<int>(r);
  }
  if (worst.relative() <= now_.grad_norm) return std::nullopt;
  Difference difference;
  difference.step = step;
  difference.what = "grad_norm";
  difference.rank = rank;
  difference.pair = worst;
  difference.share = worst.relative();
  difference.allowed = now_.grad_norm;
  difference.cause = cause_of_norm(worst, norms);
  return difference;
}

}  // namespace trireme::verify
