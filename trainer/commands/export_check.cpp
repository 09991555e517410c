#include "trainer/commands/export_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "model/base/file.h"
#include "model/base/human.h"
#include "model/base/philox.h"
#include "trainer/engine/inference.h"

namespace trireme {
namespace {

constexpr std::int64_t kTokens = 16;
constexpr std::uint64_t kActivations = 64u << 20;  // memory of activations

std::vector<std::int32_t> fixed_tokens(const ModelConfig& model) {
  const std::uint64_t key = random_key(0, "export/check");
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < std::min(kTokens, model.max_position_embeddings); ++i) {
    const std::uint32_t drawn = philox(key, static_cast<std::uint64_t>(i), 0)[0];
    ids.push_back(static_cast<std::int32_t>(drawn % static_cast<std::uint64_t>(model.vocab_size)));
  }
  return ids;
}

using Logits = std::vector<std::vector<float>>;  // by token

// Logits in float32, of the weights as stored or rounded to `rounded`.
Logits logits_of(TrainedModel from, const std::vector<std::int32_t>& ids, DType rounded) {
  Inference model({.model = from.config.model,
                   .device = {},
                   .compute = DType::kF32,
                   .seq_len = static_cast<std::int64_t>(ids.size()),
                   .micro_batch = 0,
                   .prompt = 1});
  load_weights(from, model);
  if (rounded != DType::kF32) {
    const Tensor& masters = model.host_masters().host();
    auto* const values = masters.as<float>();
    std::transform(values, values + masters.count(), values,
                   [rounded](float value) { return rounded_to(rounded, value); });
    model.publish_masters();
  }
  Logits logits;
  for (const std::int32_t id : ids) logits.push_back(model.next_logits({&id, 1}));
  return logits;
}

// The largest difference; NaN if a logit is NaN.
double distance(const Logits& a, const Logits& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < a[i].size(); ++j) {
      const double difference = std::abs(double{a[i][j]} - double{b[i][j]});
      if (std::isnan(difference)) return difference;
      largest = std::max(largest, difference);
    }
  }
  return largest;
}

bool same_bits(const Logits& a, const Logits& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0;
  });
}

}  // namespace

std::uint64_t memory_of_logits(const ModelConfig& model) {
  return static_cast<std::uint64_t>(parameter_count(model)) * sizeof(float) + kActivations;
}

std::string check_export(const ExportCheck& check, WeightExport& weights) {
  const TrainedModel read_back = open_trained_model(check.exported);
  weights.compare(ForeignWeights(check.exported, read_back.config.model));
  std::string found = "every weight reads back to the bit";
  const ModelConfig& model = check.source.config.model;
  const std::uint64_t needed = memory_of_logits(model);
  if (needed > check.memory_bytes) {
    if (check.logits.empty()) {
      return fmt::format("{}; logits would need --memory {}", found, human_bytes(needed));
    }
    throw ConfigError(say("--logits needs --memory ", needed, " for this model"));
  }
  const std::vector<std::int32_t> ids = fixed_tokens(model);
  const Logits written = logits_of(read_back, ids, DType::kF32);
  const Logits expected = logits_of(check.source, ids, check.dtype);
  if (!same_bits(expected, written)) {
    throw CheckpointError(say("the logits of the export differ from those of the checkpoint by ",
                              distance(expected, written)));
  }
  found += fmt::format(", and so do the logits of {} tokens (largest difference 0)", ids.size());
  if (check.dtype != DType::kF32) {
    const Logits unrounded = logits_of(check.source, ids, DType::kF32);
    found += fmt::format("; rounding to {} changed them by at most {:.3g}", name_of(check.dtype),
                         distance(unrounded, written));
  }
  if (!check.logits.empty()) {
    replace_text(check.logits, nlohmann::json({{"ids", ids}, {"logits", written}}).dump() + "\n");
  }
  return found;
}

}  // namespace trireme
