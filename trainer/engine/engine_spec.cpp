#include "trainer/engine/engine_spec.h"

#include <map>

#include "model/device/devices.h"

namespace trireme {

DType compute_dtype(const std::string& name) {
  static const std::map<std::string, DType> kNames{
      {"float32", DType::kF32}, {"float64", DType::kF64}, {"bfloat16", DType::kBf16}};
  const auto found = kNames.find(name);
  if (found == kNames.end()) throw ConfigError(say("training.dtype = \"", name, "\" is not built"));
  return found->second;
}

EngineSpec engine_spec(const RunConfig& config) {
  const std::map<std::string, Recompute> modes{
      {"none", Recompute::kNone}, {"selective", Recompute::kSelective}, {"full", Recompute::kFull}};
  return {.model = config.model,
          .compute = compute_dtype(config.training.dtype),
          .recompute = modes.at(config.activation_checkpoint.mode),
          .seq_len = config.training.seq_len,
          .micro_batch = config.training.local_batch_size,
          .micro_batches = microbatches(config),
          .schedule = config.parallelism.schedule,
          .virtual_stages = static_cast<int>(config.parallelism.virtual_stages),
          .layers_per_stage = config.parallelism.layers_per_stage,
          .sequence = config.parallelism.sequence,
          .zero = static_cast<int>(config.parallelism.zero),
          .bucket = static_cast<std::int64_t>(config.parallelism.bucket_mb * (1 << 20)) /
                    static_cast<std::int64_t>(sizeof(float)),
          .reproducible = config.job.reproducible,
          .optimizer = {.beta1 = config.optimizer.beta1,
                        .beta2 = config.optimizer.beta2,
                        .epsilon = config.optimizer.eps,
                        .weight_decay = config.optimizer.weight_decay,
                        .max_norm = config.training.max_norm}};
}

Device open_device(const std::string& name, int local_rank) {
  if (name == "cpu") return {};
  const CudaDevices& found = cuda_devices();
  if (found.count > 0) return {Device::Kind::kCuda, local_rank % found.count};
  if (name == "auto") return {};
  throw EnvironmentError(say("job.device = \"cuda\": ", found.reason, "; ", found.fix,
                             ", or use \"cpu\" or \"auto\""));
}

}  // namespace trireme
