#include "trainer/engine/computation.h"

#include <algorithm>
#include <iterator>

#include "model/base/error.h"
#include "model/device/devices.h"
#include "trainer/config/option.h"
#include "trainer/config/value_text.h"

namespace trireme {
namespace {

constexpr const char* kReproducible = "job.reproducible";

// job.device and job.threads count by the actual device and threads; training reads no average.
bool decides_bits(const Option& option) {
  if (option.effect == Effect::kBookkeeping || option.section() == "lr_scheduler") return false;
  static const char* const kElsewhere[] = {"optimizer.lr", "training.steps", "training.tokens",
                                           "training.ema", "job.device",     "job.threads"};
  return std::find(std::begin(kElsewhere), std::end(kElsewhere), option.key) ==
         std::end(kElsewhere);
}

bool is_free_when_reproducible(const std::string& key) {
  static const char* const kKeys[] = {"parallelism.pipeline",       "parallelism.schedule",
                                      "parallelism.virtual_stages", "parallelism.layers_per_stage",
                                      "parallelism.data_replicate", "parallelism.data_shard",
                                      "parallelism.zero",           "parallelism.bucket_mb"};
  return std::find(std::begin(kKeys), std::end(kKeys), key) != std::end(kKeys);
}

std::string value_of(const Computation& computation, const std::string& key) {
  const auto found = computation.find(key);
  return found == computation.end() ? "nothing" : found->second;
}

}  // namespace

Computation computation_of(const RunConfig& config, Device device, int threads) {
  RunConfig values = config;  // slots point to mutable members
  Computation computation;
  for (const Option& option : options()) {
    if (!decides_bits(option)) continue;
    if (option.applies != nullptr && !option.applies(values)) continue;
    computation[option.key] = to_toml(option.slot(values));
  }
  computation["device"] = device.is_cuda() ? properties_of(device).name : "cpu";
  computation["threads"] = std::to_string(threads);
  computation["program"] = TRIREME_VERSION;
  return computation;
}

ComputationChange change_of(const Computation& before, const Computation& after) {
  Computation keys = before;
  keys.insert(after.begin(), after.end());
  const bool reproducible =
      value_of(before, kReproducible) == "true" && value_of(after, kReproducible) == "true";
  ComputationChange change;
  for (const auto& [key, value] : keys) {
    const std::string was = value_of(before, key), is = value_of(after, key);
    if (was == is || (reproducible && is_free_when_reproducible(key))) continue;
    const Option* option = find_option(key);
    const Effect effect = option == nullptr ? Effect::kLayout : option->effect;
    if (effect == Effect::kNumerics || effect == Effect::kData) change.same_step = false;
    change.same_bits = false;
    change.text += say(change.text.empty() ? "" : ", ", key, ": ", was, " -> ", is);
  }
  return change;
}

}  // namespace trireme
