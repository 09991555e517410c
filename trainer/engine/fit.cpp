#include "trainer/engine/fit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "model/base/human.h"
#include "model/device/imagined.h"
#include "trainer/engine/proposals.h"
#include "trainer/engine/step_plan.h"

namespace trireme {
namespace {

std::size_t snapshot_of(const RunConfig& config, const MemoryPlan& plan) {
  return config.checkpoint.async ? snapshot_bytes(plan) : 0;
}

// The largest need of a rank, from one rank of each pipeline stage; nothing if one does not fit.
std::optional<std::size_t> fitting(const RunConfig& config, std::size_t buffers, Device device,
                                   std::size_t available) {
  const std::int64_t pipeline = config.parallelism.pipeline;
  const std::int64_t each = world_size(config.parallelism) / pipeline;
  std::size_t most = 0;
  for (std::int64_t place = 0; place < pipeline; ++place) {
    MemoryPlan plan = plan_of_rank(config, device, static_cast<int>(place * each)).memory;
    plan.buffers = std::max(plan.buffers, buffers);
    most = std::max(most, needed_bytes(config, plan, device));
    const bool host_has_room =
        is_imagined(device) || needed_host_bytes(config, plan, device) <= available_host_memory();
    if (most > available || !host_has_room) return {};
  }
  return most;
}

}  // namespace

std::size_t snapshot_bytes(const MemoryPlan& plan) {
  const MemoryPlan::Host& host = plan.host;
  if (host.masters > 0 || host.optimizer > 0) return host.masters + host.optimizer;
  return (plan.masters > 0 ? plan.masters : plan.weights) + plan.optimizer;
}

std::size_t needed_bytes(const RunConfig& config, const MemoryPlan& plan, Device device) {
  return plan.total() + (device.is_cuda() ? 0 : snapshot_of(config, plan));
}

std::size_t host_copy_bytes(const MemoryPlan& plan) {
  return plan.host.masters > 0 || plan.host.optimizer > 0 ? 0 : snapshot_bytes(plan);
}

std::size_t needed_host_bytes(const RunConfig& config, const MemoryPlan& plan, Device device) {
  if (!device.is_cuda()) return 0;
  return plan.host_total() + host_copy_bytes(plan) + snapshot_of(config, plan);
}

std::vector<Saving> savings(const RunConfig& config, std::size_t buffers, Device device,
                            std::size_t available) {
  constexpr std::size_t kMost = 3;
  std::vector<Saving> found;
  for (const Proposal& proposal : proposals(config, device)) {
    const auto bytes = fitting(proposal.config, buffers, device, available);
    if (bytes) found.push_back({proposal.change, *bytes});
    if (found.size() == kMost) break;
  }
  return found;
}

void require_fit(const RunConfig& config, Device device, const MemoryPlan& plan,
                 std::size_t available) {
  const std::size_t needed = needed_bytes(config, plan, device);
  if (needed <= available) return;
  std::string text = fmt::format("the run needs {} of memory, {} are available",
                                 human_bytes(needed), human_bytes(available));
  const std::vector<Saving> found = savings(config, plan.buffers, device, available);
  for (const Saving& saving : found) {
    text += fmt::format("\n  {} would need {}", saving.change, human_bytes(saving.bytes));
  }
  if (found.empty()) text += "; a smaller model or a shorter training.seq_len is needed";
  throw EnvironmentError(text);
}

void require_host_memory(const RunConfig& config, Device device, const MemoryPlan& plan,
                         std::size_t available) {
  const bool optimizer = config.optimizer.offload;
  if (!device.is_cuda() && (optimizer || config.activation_checkpoint.offload)) {
    throw ConfigError(say(optimizer ? "optimizer" : "activation_checkpoint",
                          ".offload = true offloads from a GPU to host memory, but this run is on "
                          "the CPU; remove it, or see job.device"));
  }
  const std::size_t needed = needed_host_bytes(config, plan, device);
  if (needed <= available) return;
  std::vector<std::string> parts, fixes;
  const auto add = [&](std::size_t bytes, const char* what, const char* fix) {
    if (bytes == 0) return;
    parts.push_back(fmt::format("{} for {}", human_bytes(bytes), what));
    fixes.emplace_back(fix);
  };
  add(plan.host_total(), "offload", "offload less");
  add(host_copy_bytes(plan), "a copy of the weights and the optimizer's state",
      "use more data-parallel ranks with parallelism.zero = 1");
  add(snapshot_of(config, plan), "the checkpoint snapshot", "set checkpoint.async = false");
  throw EnvironmentError(fmt::format(
      "the run needs {} of host memory ({}), but {} are available; {}", human_bytes(needed),
      fmt::join(parts, ", "), human_bytes(available), fmt::join(fixes, ", or ")));
}

}  // namespace trireme
