#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "model/tensor/host_tensor.h"
#include "trainer/tools/verify/cause.h"
#include "trainer/tools/verify/elements.h"
#include "trainer/tools/verify/verification.h"

namespace trireme::verify {
namespace {

// Minimum tolerances of pattern matching, also where sums are bit-identical.
constexpr double kOfPatterns = 1e-5, kLossOfPatterns = 1e-6;

// Bounds the number of extra backward passes.
constexpr std::int64_t kMostMicroBatches = 32;

// Most experts of a layer that are tried one by one.
constexpr std::size_t kMostExperts = 64;

// A residual branch in model order, such as "layers.0.attention", with its output weight and bias,
// or the output weights of all its experts.
struct Branch {
  std::string name;
  std::vector<std::string> tensors;
};

std::vector<Branch> branches_of(const Tensors& tensors) {
  std::vector<Branch> branches;
  for (const Tensors::Entry& entry : tensors.entries()) {
    for (const std::string_view last : {".o.", ".down."}) {
      const std::size_t at = entry.name.find(last);
      if (at == std::string::npos) continue;
      const std::string name = entry.name.substr(0, std::min(at, entry.name.find(".experts.")));
      if (branches.empty() || branches.back().name != name) branches.push_back({name, {}});
      branches.back().tensors.push_back(entry.name);
    }
  }
  return branches;
}

// Sets tensors to zero.
void silence(const Subject& subject, const std::vector<std::string>& names) {
  if (!subject.takes_part()) return;
  for (const ParamShard& shard : subject.engine().model().params().shards()) {
    if (std::find(names.begin(), names.end(), shard.param->spec.name) == names.end()) continue;
    write_elements(subject.stream(), shard.master, std::vector<float>(shard.count()));
  }
  subject.engine().model().publish_masters(subject.engine().stream());
  subject.engine().model().finish_publishing();
}

// The tensors of the branches from `first` on.
std::vector<std::string> tensors_from(const std::vector<Branch>& branches, std::size_t first) {
  std::vector<std::string> names;
  for (std::size_t i = first; i < branches.size(); ++i) {
    names.insert(names.end(), branches[i].tensors.begin(), branches[i].tensors.end());
  }
  return names;
}

// Compares sums of squares computed from float32 norms.
bool about(double a, double b, double of_all) {
  return std::fabs(a - b) <= 1e-3 * std::fabs(b) + 2e-6 * of_all;
}

}  // namespace

Cause Verification::cause_of_gradients(const std::vector<TensorResult>& results, std::int64_t step,
                                       const ValuePair& loss, Difference& difference) {
  std::size_t first = results.size(), last = 0;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i].differs()) continue;
    first = std::min(first, i);
    last = i;
  }
  difference.origin = tensors_[last].name;
  if (const auto ratio = ratio_of_all(results)) {
    const double precision = std::max(roundings_.ratio / 3, 1e-3);
    if (auto cause = cause_of_ratio(*ratio, sampling_.layout_sizes(), precision)) return *cause;
  }
  const bool loss_differs = !(loss.relative() <= tolerances_.loss);
  std::vector<Evidence> evidence;
  for (const std::size_t tensor : {last, first}) {
    const double tolerance = std::max(tolerances_.gradient, kOfPatterns) * results[tensor].scale;
    evidence.push_back(sampling_.evidence(tensor, Quantity::kGradient, tolerance));
  }
  evidence[0].by_micro_batch = by_micro_batch(last, step);
  evidence[1].by_micro_batch = by_micro_batch(first, step);
  evidence[0].of_router_losses = of_router_losses(last, step);
  evidence[1].of_router_losses = of_router_losses(first, step);
  std::optional<Cause> cause;
  for (const Evidence& of_one : evidence) {
    if (cause) break;
    cause = cause_of_gradient(of_one);
    if (cause) cause->text = fmt::format("{}: {}", of_one.tensor, cause->text);
  }
  if (!cause && step > 1) {
    cause = {"late",
             fmt::format(
                 "step {} and its weights were equal, so state carried to the next step is wrong, "
                 "such as weights gathered before their update",
                 step - 1)};
  }
  if (!cause) cause = cause_of_mask(step, loss_differs);
  if (!cause && loss_differs) {
    cause = {
        "forward",
        fmt::format(
            "the loss is wrong too ({:.6g} times the expected value): the forward is wrong in {}",
            loss.value / loss.expected, part_of_forward(step))};
  }
  if (!cause && difference.origin.find(".router.") != std::string::npos) {
    cause = {"routing",
             fmt::format("the loss and the gradients of this layer's experts are correct: the "
                         "backward is wrong from {} on, in the gradient of the routing weights",
                         difference.origin)};
  }
  if (!cause) {
    cause = {"backward", fmt::format("the loss is correct: the backward is wrong from {} on",
                                     difference.origin)};
  }
  return *cause;
}

// The common ratio of all gradients to the reference; nullopt if they differ.
std::optional<double> Verification::ratio_of_all(const std::vector<TensorResult>& results) const {
  double cross = 0, squares = 0;
  for (const TensorResult& one : results) {
    cross += one.cross;
    squares += one.expected_squares;
  }
  if (squares == 0) return std::nullopt;
  const double ratio = cross / squares;
  for (const TensorResult& one : results) {
    if (!(std::fabs(one.ratio() - ratio) <= roundings_.ratio)) return std::nullopt;
  }
  return ratio;
}

// Reference gradients of each micro-batch. Overwrites the gradients of the step.
std::vector<std::vector<double>> Verification::by_micro_batch(std::size_t tensor,
                                                              std::int64_t step) {
  const std::int64_t count =
      micro_batches_per_step(of_.reference) * data_ranks(of_.reference.parallelism);
  std::vector<std::vector<double>> terms;
  if (count > kMostMicroBatches) return terms;
  for (std::int64_t number = 0; number < count; ++number) {
    if (reference_.takes_part()) {
      const std::int64_t valid = samples_.fill(reference_, step, number).valid;
      compute_gradients(reference_.engine(), valid, step);
    }
    terms.push_back(sampling_.expected(tensor, Quantity::kGradient));
  }
  return terms;
}

// Reference gradient of the routers' losses alone; empty if there are none. Overwrites the
// gradients of the step.
std::vector<double> Verification::of_router_losses(std::size_t tensor, std::int64_t step) {
  const ModelConfig& model = of_.reference.model;
  const bool has_losses = model.router_aux_loss_coef > 0 || model.router_z_loss_coef > 0;
  if (model.num_experts == 0 || !has_losses) return {};
  if (reference_.takes_part()) {
    // The first of no micro-batches: none has targets.
    constexpr std::int64_t kNone = -1;
    const std::int64_t valid = samples_.fill(reference_, step, kNone).valid;
    compute_gradients(reference_.engine(), valid, step);
  }
  return sampling_.expected(tensor, Quantity::kGradient);
}

// Whether the losses differ with initial weights and these tensors zero. Overwrites the weights.
bool Verification::forward_differs(const std::vector<std::string>& silent, std::int64_t step,
                                   bool masked) {
  for (const Subject* subject : {&subject_, &reference_}) {
    if (!subject->takes_part()) continue;
    subject->begin();
    silence(*subject, silent);
  }
  const double loss = gradients(subject_, step, /*mistaken=*/true, masked);
  const ValuePair pair = both(loss, gradients(reference_, step, /*mistaken=*/false, masked));
  return !(pair.relative() <= std::max(tolerances_.loss, kLossOfPatterns));
}

// A cause if the loss and all gradients are equal as soon as every sequence is one document.
// Overwrites weights and gradients.
std::optional<Cause> Verification::cause_of_mask(std::int64_t step, bool loss_differs) {
  if (!of_.subject.data.document_mask || forward_differs({}, step, /*masked=*/false) ||
      any_differs(comparison_.compare({Quantity::kGradient}, roundings_))) {
    return std::nullopt;
  }
  return Cause{"documents",
               fmt::format("the loss and all gradients are correct when every sequence is one "
                           "document: tokens see other documents, or not all of their own{}",
                           loss_differs ? ", in " + part_of_forward(step) : "")};
}

// Bisects the first residual branch that makes the losses differ, by zeroing all branches after it
// in both layouts, and then its experts, each without the others.
std::string Verification::part_of_forward(std::int64_t step) {
  const std::vector<Branch> branches = branches_of(tensors_);
  const auto differs = [&](std::size_t heard) {
    return forward_differs(tensors_from(branches, heard), step);
  };
  if (differs(0)) {
    return "the embedding, the loss, or the pipeline messages" + on_context_ranks(step);
  }
  std::size_t equal = 0, different = branches.size();
  while (different - equal > 1) {
    const std::size_t middle = (equal + different) / 2;
    (differs(middle) ? different : equal) = middle;
  }
  const Branch& branch = branches[equal];
  const std::vector<std::string>& experts = branch.tensors;
  if (experts.front().find(".experts.") == std::string::npos || experts.size() > kMostExperts) {
    return branch.name;
  }
  std::vector<std::size_t> wrong;
  for (std::size_t e = 0; e < experts.size(); ++e) {
    std::vector<std::string> silent = tensors_from(branches, equal + 1);
    for (const std::string& other : experts) {
      if (other != experts[e]) silent.push_back(other);
    }
    if (forward_differs(silent, step)) wrong.push_back(e);
  }
  if (wrong.empty() || wrong.size() == experts.size()) return branch.name;
  const bool is_one = wrong.size() == 1;
  return fmt::format("{}, seen in rows of expert{} {}", branch.name, is_one ? "" : "s",
                     fmt::join(wrong, ", "));
}

// 1 for parameters replicated across tensor ranks of the subject.
std::vector<double> Verification::held_by_several() const {
  std::vector<double> several(tensors_.size());
  if (subject_.takes_part()) {
    for (const Weight& weight : subject_.engine().model().params().weights()) {
      for (const Param& param : weight.parts) {
        if (param.spec.cut.replica.count > 1) several[tensors_.index(param.spec.name)] = 1;
      }
    }
  }
  Stream stream;
  ranks_->all_reduce(stream, host_tensor(std::span(several)), Reduce::kMax);
  return several;
}

Cause Verification::cause_of_norm(const ValuePair& norm, const std::vector<double>& norms) const {
  const std::vector<double> several = held_by_several();
  double of_several = 0;
  for (std::size_t i = 0; i < several.size(); ++i) {
    of_several += several[i] * gradients_[i].squares;
  }
  const double squares = norm.value * norm.value, expected = norm.expected * norm.expected;
  const auto copies = static_cast<double>(of_.subject.parallelism.tensor);
  if (copies > 1 && of_several > 0 &&
      about(squares - expected, (copies - 1) * of_several, expected)) {
    return {"counted-twice",
            fmt::format(
                "parameters replicated across tensor ranks (norm gains, biases, key-value heads) "
                "are counted {:.0f} times",
                copies)};
  }
  double sum = 0;
  for (const double one : norms) sum += one * one;
  const double replicas = static_cast<double>(of_.subject.parallelism.data_replicate);
  for (const double times : {1.0, replicas,
                             static_cast<double>(data_ranks(of_.subject.parallelism) *
                                                 of_.subject.parallelism.context)}) {
    if (norms.size() > 1 && about(sum / times, expected, expected)) {
      return {"missing-sum",
              "each rank has the norm of its own shard: the reduction over the model-parallel "
              "ranks is missing"};
    }
  }
  return {"norm",
          fmt::format(
              "all gradients are correct: the sum of squares is wrong ({:.6g} times the expected "
              "value)",
              squares / expected)};
}

}  // namespace trireme::verify
