#include "trainer/engine/fit.h"

#include <fmt/format.h>

#include "trainer/engine/engine_spec.h"

namespace trireme {
namespace {

struct Proposal {
  std::string change;
  RunConfig config;
};

std::string gibibytes(std::size_t bytes) {
  return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / (1 << 30));
}

// From the cheapest in time to the dearest.
std::vector<Proposal> proposals(const RunConfig& config) {
  std::vector<Proposal> all;
  RunConfig changed = config;
  std::string text;
  const auto propose = [&](const std::string& change) {
    text += (text.empty() ? "" : " and ") + change;
    all.push_back({text, changed});
  };
  if (config.checkpoint.async) {
    changed.checkpoint.async = false;
    propose("checkpoint.async = false");
    changed = config;
    text = "";
  }
  if (config.activation_checkpoint.mode == "none") {
    changed.activation_checkpoint.mode = "selective";
    propose("activation_checkpoint.mode = \"selective\"");
  }
  // A smaller micro-batch only means more of them: the step computes the same.
  while (changed.training.local_batch_size % 2 == 0) {
    changed.training.local_batch_size /= 2;
    text = "";
    if (changed.activation_checkpoint.mode != config.activation_checkpoint.mode) {
      text = "activation_checkpoint.mode = \"" + changed.activation_checkpoint.mode + "\"";
    }
    propose(fmt::format("training.local_batch_size = {}", changed.training.local_batch_size));
  }
  if (changed.activation_checkpoint.mode != "full") {
    changed.activation_checkpoint.mode = "full";
    text = changed.training.local_batch_size == config.training.local_batch_size
               ? ""
               : fmt::format("training.local_batch_size = {}", changed.training.local_batch_size);
    propose("activation_checkpoint.mode = \"full\"");
  }
  return all;
}

// A snapshot lies in the host's memory.
std::size_t needed_bytes(const RunConfig& config, const MemoryPlan& plan, Device device) {
  const bool beside = config.checkpoint.async && !device.is_cuda();
  return plan.total() + (beside ? snapshot_bytes(plan) : 0);
}

}  // namespace

std::size_t snapshot_bytes(const MemoryPlan& plan) {
  return (plan.masters > 0 ? plan.masters : plan.weights) + plan.optimizer;
}

std::vector<Saving> savings(const RunConfig& config, const RankGroups& groups, Device device,
                            std::size_t available) {
  constexpr std::size_t kMost = 3;
  std::vector<Saving> found;
  for (const Proposal& proposal : proposals(config)) {
    const std::size_t bytes = needed_bytes(
        proposal.config, plan_engine(engine_spec(proposal.config), groups, device).memory, device);
    if (bytes <= available) found.push_back({proposal.change, bytes});
    if (found.size() == kMost) break;
  }
  return found;
}

void require_fit(const RunConfig& config, const RankGroups& groups, Device device,
                 const MemoryPlan& plan, std::size_t available) {
  const std::size_t needed = needed_bytes(config, plan, device);
  if (needed <= available) return;
  std::string text = fmt::format("the run needs {} of memory, {} are available", gibibytes(needed),
                                 gibibytes(available));
  const std::vector<Saving> found = savings(config, groups, device, available);
  for (const Saving& saving : found) {
    text += fmt::format("\n  {} would need {}", saving.change, gibibytes(saving.bytes));
  }
  if (found.empty()) text += "; a smaller model or a shorter training.seq_len is needed";
  throw EnvironmentError(text);
}

}  // namespace trireme
