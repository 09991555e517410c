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
std::vector<Proposal> proposals(const RunConfig& config, Device device) {
  std::vector<Proposal> all;
  RunConfig changed = config;
  std::string text;
  const auto propose = [&](const std::string& change) {
    text += (text.empty() ? "" : " and ") + change;
    all.push_back({text, changed});
  };
  if (config.checkpoint.async && !device.is_cuda()) {
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
  if (!device.is_cuda()) return all;
  if (!changed.activation_checkpoint.offload) {
    changed.activation_checkpoint.offload = true;
    propose("activation_checkpoint.offload = true");
  }
  if (!changed.optimizer.offload) {
    RunConfig alone = config;
    alone.optimizer.offload = true;
    all.push_back({"optimizer.offload = true", alone});
    changed.optimizer.offload = true;
    propose("optimizer.offload = true");
  }
  return all;
}

std::size_t snapshot_of(const RunConfig& config, const MemoryPlan& plan) {
  return config.checkpoint.async ? snapshot_bytes(plan) : 0;
}

// A snapshot lies in the host's memory.
std::size_t needed_bytes(const RunConfig& config, const MemoryPlan& plan, Device device) {
  return plan.total() + (device.is_cuda() ? 0 : snapshot_of(config, plan));
}

// Beside a device.
std::size_t host_bytes(const RunConfig& config, const MemoryPlan& plan, Device device) {
  return device.is_cuda() ? plan.host_total() + snapshot_of(config, plan) : 0;
}

}  // namespace

std::size_t snapshot_bytes(const MemoryPlan& plan) {
  const MemoryPlan::Host& host = plan.host;
  if (host.masters > 0 || host.optimizer > 0) return host.masters + host.optimizer;
  return (plan.masters > 0 ? plan.masters : plan.weights) + plan.optimizer;
}

std::vector<Saving> savings(const RunConfig& config, const RankGroups& groups, Device device,
                            std::size_t available) {
  constexpr std::size_t kMost = 3;
  std::vector<Saving> found;
  for (const Proposal& proposal : proposals(config, device)) {
    const MemoryPlan memory = plan_engine(engine_spec(proposal.config), groups, device).memory;
    const std::size_t bytes = needed_bytes(proposal.config, memory, device);
    if (bytes <= available &&
        host_bytes(proposal.config, memory, device) <= available_host_memory()) {
      found.push_back({proposal.change, bytes});
    }
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

void require_host_memory(const RunConfig& config, Device device, const MemoryPlan& plan,
                         std::size_t available) {
  const bool optimizer = config.optimizer.offload;
  if (!device.is_cuda() && (optimizer || config.activation_checkpoint.offload)) {
    throw ConfigError(say(optimizer ? "optimizer" : "activation_checkpoint",
                          ".offload = true takes memory of a GPU to the host, and this run is on "
                          "the CPU; remove it, or see job.device"));
  }
  const std::size_t needed = host_bytes(config, plan, device);
  if (needed <= available) return;
  const std::size_t snapshot = snapshot_of(config, plan);
  throw EnvironmentError(fmt::format(
      "what is offloaded needs {} of the host's memory and the snapshot for checkpoints {}, {} are "
      "available; offload less{}",
      gibibytes(needed - snapshot), gibibytes(snapshot), gibibytes(available),
      snapshot > 0 ? ", or set checkpoint.async = false" : ""));
}

}  // namespace trireme
