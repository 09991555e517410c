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

}  // namespace

std::vector<Saving> savings(const RunConfig& config, const RankGroups& groups, Device device,
                            std::size_t available) {
  constexpr std::size_t kMost = 3;
  std::vector<Saving> found;
  for (const Proposal& proposal : proposals(config, device)) {
    const MemoryPlan memory = plan_engine(engine_spec(proposal.config), groups, device).memory;
    const std::size_t bytes = memory.total();
    if (bytes <= available && memory.host_total() <= available_host_memory())
      found.push_back({proposal.change, bytes});
    if (found.size() == kMost) break;
  }
  return found;
}

void require_fit(const RunConfig& config, const RankGroups& groups, Device device,
                 std::size_t needed, std::size_t available) {
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

void require_offload(const RunConfig& config, Device device, std::size_t needed,
                     std::size_t available) {
  const bool optimizer = config.optimizer.offload;
  if (!device.is_cuda() && (optimizer || config.activation_checkpoint.offload)) {
    throw ConfigError(say(optimizer ? "optimizer" : "activation_checkpoint",
                          ".offload = true takes memory of a GPU to the host, and this run is on "
                          "the CPU; remove it, or see job.device"));
  }
  if (needed <= available) return;
  throw EnvironmentError(
      fmt::format("what is offloaded needs {} of the host's memory, {} are available; offload less",
                  gibibytes(needed), gibibytes(available)));
}

}  // namespace trireme
