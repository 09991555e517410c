#include "trainer/engine/proposals.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "trainer/config/rules.h"

namespace trireme {
namespace {

struct Change {
  std::string text;
  std::function<void(RunConfig&)> apply;
  bool joins = true;  // takes part in combinations, for the changes like it
};

std::string complaints_about(const RunConfig& config) {
  Complaints complaints;
  check_rules({.config = config, .source = "", .origins = {}}, complaints, Purpose::kPlanning);
  return complaints.text("");
}

// Smaller micro-batches mean more of them: the step computes the same.
void micro_batches(const RunConfig& config, std::vector<Change>& to) {
  for (std::int64_t size = config.training.local_batch_size; size % 2 == 0;) {
    size /= 2;
    to.push_back({fmt::format("training.local_batch_size = {}", size),
                  [size](RunConfig& c) { c.training.local_batch_size = size; }, size % 2 != 0});
  }
}

void sharding(const RunConfig& config, std::vector<Change>& to) {
  const ParallelismConfig& layout = config.parallelism;
  for (std::int64_t zero = layout.zero + 1; zero <= 3 && layout.data_shard > 1; ++zero) {
    to.push_back({fmt::format("parallelism.zero = {}", zero),
                  [zero](RunConfig& c) { c.parallelism.zero = zero; }, zero == 3});
  }
  if (layout.tensor > 1 && !layout.sequence) {
    to.push_back(
        {"parallelism.sequence = true", [](RunConfig& c) { c.parallelism.sequence = true; }});
  }
}

// Tensor or pipeline parallelism instead of data parallelism.
void layouts(const RunConfig& config, std::vector<Change>& to) {
  const ParallelismConfig& layout = config.parallelism;
  if (layout.data_shard % 2 != 0) return;
  const std::int64_t tensor = 2 * layout.tensor, pipeline = 2 * layout.pipeline;
  const std::int64_t shard = layout.data_shard / 2;
  to.push_back({fmt::format("parallelism.tensor = {} with data_shard = {}", tensor, shard),
                [=](RunConfig& c) {
                  c.parallelism.tensor = tensor;
                  c.parallelism.data_shard = shard;
                },
                false});
  to.push_back({fmt::format("parallelism.pipeline = {} with data_shard = {}", pipeline, shard),
                [=](RunConfig& c) {
                  c.parallelism.pipeline = pipeline;
                  c.parallelism.data_shard = shard;
                },
                false});
}

std::vector<Change> changes(const RunConfig& config, Device device) {
  std::vector<Change> all;
  if (config.checkpoint.async && !device.is_cuda()) {
    all.push_back({"checkpoint.async = false", [](RunConfig& c) { c.checkpoint.async = false; }});
  }
  sharding(config, all);
  const Recompute mode = config.activation_checkpoint.mode;
  if (mode == Recompute::kNone) {
    all.push_back({"activation_checkpoint.mode = \"norms\"",
                   [](RunConfig& c) { c.activation_checkpoint.mode = Recompute::kNorms; }, false});
  }
  if (mode < Recompute::kSelective) {
    all.push_back({"activation_checkpoint.mode = \"selective\"",
                   [](RunConfig& c) { c.activation_checkpoint.mode = Recompute::kSelective; },
                   false});
  }
  micro_batches(config, all);
  if (mode != Recompute::kFull) {
    all.push_back({"activation_checkpoint.mode = \"full\"",
                   [](RunConfig& c) { c.activation_checkpoint.mode = Recompute::kFull; }});
  }
  layouts(config, all);
  if (!device.is_cuda()) return all;
  if (!config.activation_checkpoint.offload) {
    all.push_back({"activation_checkpoint.offload = true",
                   [](RunConfig& c) { c.activation_checkpoint.offload = true; }});
  }
  if (config.training.dtype == "float8" && config.training.float8_cache_weights) {
    all.push_back({"training.float8_cache_weights = false",
                   [](RunConfig& c) { c.training.float8_cache_weights = false; }});
  }
  if (!config.optimizer.offload) {
    all.push_back({"optimizer.offload = true", [](RunConfig& c) { c.optimizer.offload = true; }});
  }
  return all;
}

}  // namespace

std::vector<Proposal> proposals(const RunConfig& config, Device device) {
  const std::string before = complaints_about(config);
  std::vector<Proposal> all;
  const auto propose = [&](const std::string& text, const RunConfig& changed) {
    const std::string after = complaints_about(changed);
    if (after.empty() || after == before) all.push_back({text, changed});
  };
  const std::vector<Change> possible = changes(config, device);
  for (const Change& change : possible) {
    RunConfig changed = config;
    change.apply(changed);
    propose(change.text, changed);
  }
  RunConfig together = config;
  std::string text;
  for (const Change& change : possible) {
    if (!change.joins) continue;
    change.apply(together);
    const bool is_first = text.empty();
    text += (is_first ? "" : " and ") + change.text;
    if (!is_first) propose(text, together);
  }
  return all;
}

}  // namespace trireme
