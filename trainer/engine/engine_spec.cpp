#include "trainer/engine/engine_spec.h"

#include <algorithm>
#include <map>

#include "model/device/devices.h"
#include "trainer/config/batch_size.h"
#include "trainer/config/sequence_length.h"

namespace trireme {

bool divides_sequences(const RunConfig& config) {
  return config.parallelism.context > 1 && !config.job.reproducible;
}

DType compute_dtype(const std::string& name) {
  static const std::map<std::string, DType> kNames{
      {"float32", DType::kF32},
      {"float64", DType::kF64},
      {"bfloat16", DType::kBf16},
      {"float16", DType::kF16},
      {"float8", DType::kBf16}};  // except the matmuls of the blocks
  const auto found = kNames.find(name);
  if (found == kNames.end())
    throw ConfigError(say("training.dtype = \"", name, "\" is not supported"));
  return found->second;
}

namespace {

// A prompt has at most one token per byte, plus the tokens that begin a document or a text.
std::int64_t sample_length(const RunConfig& config) {
  const ValidationConfig& validation = config.validation;
  if (validation.sample_freq == 0) return 0;
  const auto prompt = static_cast<std::int64_t>(validation.sample_prompt.size()) + 2;
  return std::min(config.training.seq_len, prompt + validation.sample_tokens);
}

std::vector<std::int64_t> fewer_micro_batches(const RunConfig& config) {
  std::vector<std::int64_t> counts = micro_batch_counts(config);
  counts.pop_back();
  return counts;
}

}  // namespace

EngineSpec engine_spec(const RunConfig& config) {
  EngineSpec spec{config};
  spec.compute = compute_dtype(config.training.dtype);
  if (config.training.dtype == "float8") spec.precision = MatmulPrecision::kFloat8;
  spec.micro_batches = micro_batches_per_step(config);
  spec.fewer_micro_batches = fewer_micro_batches(config);
  spec.bucket = static_cast<std::int64_t>(config.parallelism.bucket_mb * (1 << 20)) /
                static_cast<std::int64_t>(sizeof(float));
  spec.sample_length = sample_length(config);
  return spec;
}

std::vector<EngineSpec> engine_specs(const RunConfig& config) {
  std::vector<EngineSpec> specs;
  for (const SequenceLength& length : sequence_lengths(config)) {
    specs.push_back(engine_spec(with_length(config, length)));
    specs.back().balanced_at = config.training.seq_len;
  }
  return specs;
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
