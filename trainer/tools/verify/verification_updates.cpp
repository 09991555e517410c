// Comparison of optimizer results from equal gradients.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "model/tensor/host_tensor.h"
#include "parallel/comm/team.h"
#include "trainer/tools/verify/verification.h"

namespace trireme::verify {

std::optional<Difference> Verification::compare_norms(std::int64_t step, StepFinding& finding,
                                                      double own) {
  const std::vector<double> norms = of_all_ranks(own);
  ValuePair worst = finding.grad_norm;
  int rank = 0;
  for (std::size_t r = 0; r < norms.size(); ++r) {
    const ValuePair pair{norms[r], worst.expected};
    if (pair.relative() <= worst.relative()) continue;
    worst = pair;
    rank = static_cast<int>(r);
  }
  if (worst.relative() <= tolerances_.update) return std::nullopt;
  Difference difference;
  difference.step = step;
  difference.what = "grad_norm";
  difference.rank = rank;
  difference.pair = worst;
  difference.share = worst.relative();
  difference.allowed = tolerances_.update;
  difference.cause = cause_of_norm(worst, norms);
  return difference;
}

std::optional<Difference> Verification::compare_moments(std::int64_t step) {
  std::set<std::string> names;
  const std::vector<std::string> of_ranks = Team(*ranks_).together([&] {
    std::string own;
    if (!subject_.takes_part()) return own;
    for (const ShardedOptimizer::State& state : subject_.engine().model().optimizer().states()) {
      own += state.name + '\n';
    }
    return own;
  });
  for (const std::string& of_rank : of_ranks) {
    for (std::size_t at = 0; at < of_rank.size(); at = of_rank.find('\n', at) + 1) {
      names.insert(of_rank.substr(at, of_rank.find('\n', at) - at));
    }
  }
  for (const std::string& name : names) {
    const auto results = comparison_.compare({Quantity::kMoment, name}, tolerances_);
    if (!any_differs(results)) continue;
    Difference difference = describe(results, Quantity::kMoment, step);
    difference.what = name;
    const std::size_t first = tensors_.index(difference.tensor);
    const double tolerance = roundings_.update * results[first].scale;
    const Evidence evidence = sampling_.evidence(first, Quantity::kMoment, tolerance, name);
    difference.cause = cause_of_moment(evidence).value_or(
        Cause{"optimizer", "the gradients are correct, but the optimizer state is wrong"});
    return difference;
  }
  return std::nullopt;
}

std::optional<Difference> Verification::compare_weights(std::int64_t step, StepFinding& finding) {
  for (const Quantity quantity : {Quantity::kMaster, Quantity::kValue}) {
    const std::vector<TensorResult> results =
        comparison_.compare({quantity, "", of_.subject.optimizer.lr, step}, tolerances_);
    if (quantity == Quantity::kMaster) {
      finding.weight = StepFinding::of(results, tensors_, /*of_scale=*/false);
    }
    if (!any_differs(results)) continue;
    Difference difference = describe(results, quantity, step);
    difference.cause = cause_of_weights(results, quantity, step, tensors_.index(difference.tensor));
    return difference;
  }
  return std::nullopt;
}

Cause Verification::cause_of_weights(const std::vector<TensorResult>& results, Quantity quantity,
                                     std::int64_t step, std::size_t first) {
  const double rate = of_.subject.optimizer.lr;
  // The tolerance is a fraction of an update, as patterns are matched in updates.
  const double moved = std::max(static_cast<double>(step) * rate, 1e-6 * results[first].scale);
  Evidence evidence = sampling_.evidence(first, quantity, moved * 0x1p-4);
  if (step == 1) evidence.before = sampling_.initial(first);
  evidence.decay = rate * of_.subject.optimizer.weight_decay;
  evidence.update_tolerance = 4 * roundings_.weight(results[first].scale, rate, step);
  if (auto cause = cause_of_weight(evidence)) {
    const bool tied = of_.subject.model.tie_word_embeddings && of_.subject.parallelism.pipeline > 1;
    if (tied && cause->kind == "not-published" && tensors_[first].name == ModelState::kEmbedding) {
      return {"stale-tied-table",
              cause->text + "; the head on the last stage has a copy of the tied embedding table"};
    }
    if (cause->kind == "learning-rate" || cause->kind == "decay") cause->text += on_stage(results);
    return *cause;
  }
  if (step == 0) {
    return {"first-weights", "initial weights differ: they are generated, loaded or sharded wrong"};
  }
  return {
      "optimizer",
      fmt::format("gradients and optimizer state are correct{}, but the update is wrong: check its "
                  "step count and learning rate",
                  step > 1 ? ", as in the steps before" : "")};
}

// Stage of each parameter; -1: several stages have it.
std::vector<int> Verification::stages() const {
  // The last stage and minus the first stage of each parameter.
  std::vector<double> bounds(2 * tensors_.size(), -1e9);
  if (subject_.takes_part()) {
    const auto stage = static_cast<double>(subject_.groups().pp_forward->rank());
    for (const Weight& weight : subject_.engine().model().params().weights()) {
      for (const Param& param : weight.parts) {
        const std::size_t tensor = tensors_.index(param.spec.name);
        bounds[tensor] = stage;
        bounds[tensors_.size() + tensor] = -stage;
      }
    }
  }
  Stream stream;
  ranks_->all_reduce(stream, host_tensor(std::span(bounds)), Reduce::kMax);
  std::vector<int> stages;
  for (std::size_t tensor = 0; tensor < tensors_.size(); ++tensor) {
    const bool one = bounds[tensor] == -bounds[tensors_.size() + tensor];
    stages.push_back(one ? static_cast<int>(bounds[tensor]) : -1);
  }
  return stages;
}

// ", only on pipeline stage 1" if all differing parameters are on that stage.
std::string Verification::on_stage(const std::vector<TensorResult>& results) const {
  const std::vector<int> stages = this->stages();
  if (of_.subject.parallelism.pipeline == 1) return "";
  std::set<int> differ;
  for (std::size_t tensor = 0; tensor < results.size(); ++tensor) {
    if (results[tensor].differs() && stages[tensor] >= 0) differ.insert(stages[tensor]);
  }
  if (differ.size() != 1) return "";
  return fmt::format(", only on pipeline stage {}", *differ.begin());
}

}  // namespace trireme::verify
