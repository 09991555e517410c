#include "trainer/engine/engine_spec.h"

#include <algorithm>
#include <map>

#include "model/device/devices.h"
#include "trainer/config/batch_size.h"

namespace trireme {

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

CompressionOptions compression_options(const ParallelismConfig& layout) {
  const auto* const name =
      std::find(kCompressionNames.begin(), kCompressionNames.end(), layout.gradient_compression);
  require(name != kCompressionNames.end(), "unknown gradient compression ",
          layout.gradient_compression);
  return {.method = static_cast<CompressionOptions::Method>(name - kCompressionNames.begin()),
          .fraction = layout.compression_fraction,
          .rank = static_cast<int>(layout.compression_rank),
          .warmup_steps = layout.compression_warmup_steps};
}

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
  const std::map<std::string, Recompute> modes{
      {"none", Recompute::kNone}, {"selective", Recompute::kSelective}, {"full", Recompute::kFull}};
  return {.model = config.model,
          .compute = compute_dtype(config.training.dtype),
          .precision = config.training.dtype == "float8" ? MatmulPrecision::kFloat8
                                                         : MatmulPrecision::kNative,
          .recompute = modes.at(config.activation_checkpoint.mode),
          .seq_len = config.training.seq_len,
          .documents = config.data.document_mask,
          .micro_batch = config.training.local_batch_size,
          .micro_batches = micro_batches_per_step(config),
          .fewer_micro_batches = fewer_micro_batches(config),
          .schedule = config.parallelism.schedule,
          .virtual_stages = static_cast<int>(config.parallelism.virtual_stages),
          .layers_per_stage = config.parallelism.layers_per_stage,
          .sequence = config.parallelism.sequence,
          .zero = static_cast<int>(config.parallelism.zero),
          .bucket = static_cast<std::int64_t>(config.parallelism.bucket_mb * (1 << 20)) /
                    static_cast<std::int64_t>(sizeof(float)),
          .cuda_graphs = config.job.cuda_graphs,
          .reproducible = config.job.reproducible,
          .compression = compression_options(config.parallelism),
          .offload_activations = config.activation_checkpoint.offload,
          .offload_optimizer = config.optimizer.offload,
          .sample_length = sample_length(config),
          .optimizer = {.optimizer = config.optimizer,
                        .max_norm = config.training.max_norm,
                        .seed = static_cast<std::uint64_t>(config.job.seed)}};
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
