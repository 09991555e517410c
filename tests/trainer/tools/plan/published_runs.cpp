#include "tests/trainer/tools/plan/published_runs.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "model/base/error.h"

namespace trireme::published {
namespace {

using Json = nlohmann::json;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

double number(const Json& row, const char* key) {
  return row.at(key).is_null() ? 0 : row.at(key).get<double>();
}

std::int64_t integer(const Json& row, const char* key) {
  return row.at(key).is_null() ? 0 : row.at(key).get<std::int64_t>();
}

ModelConfig model_from(const Json& m) {
  ModelConfig c;
  const bool gated = m.at("gated");
  c.norm = gated ? NormKind::kRmsNorm : NormKind::kLayerNorm;
  c.position = gated ? PositionKind::kRotary : PositionKind::kLearned;
  c.activation = gated ? Activation::kSilu : Activation::kGeluTanh;
  c.gated_mlp = gated;
  c.vocab_size = m.at("V");
  c.hidden_size = m.at("d");
  c.intermediate_size = m.at("ffn");
  c.num_hidden_layers = m.at("L");
  c.num_attention_heads = m.at("heads");
  c.num_key_value_heads = m.at("kv");
  c.head_dim = c.hidden_size / c.num_attention_heads;
  c.tie_word_embeddings = m.at("tied");
  return c;
}

// FLOPs of a token by the convention that the run's publisher uses.
double flops_per_token(const ModelConfig& m, double seq, const std::string& convention) {
  const auto layers = static_cast<double>(m.num_hidden_layers);
  const auto hidden = static_cast<double>(m.hidden_size);
  const auto vocab = static_cast<double>(m.vocab_size);
  if (convention == "sc21") {
    return 96 * layers * hidden * hidden *
           (1 + seq / (6 * hidden) + vocab / (16 * layers * hidden));
  }
  const double width = static_cast<double>(m.head_dim);
  const double projections =
      hidden * width * static_cast<double>(2 * m.num_attention_heads + 2 * m.num_key_value_heads);
  const double mlp = hidden * static_cast<double>(m.intermediate_size) * (m.gated_mlp ? 3 : 2);
  const double attention = (convention == "causal" ? 6 : 12) * layers * hidden * seq;
  return 6 * (layers * (projections + mlp) + vocab * hidden) + attention;
}

constexpr double kFlashAttention2 = 0.57;  // on Hopper, see TrainerTraits

Recomputed recomputed_by(const std::string& recompute) {
  return has(recompute, "full")           ? Recomputed::kAll
         : has(recompute, "selective+SP") ? Recomputed::kAttention
         : has(recompute, "selective")    ? Recomputed::kNormsAndActivations
         : has(recompute, "per-op")       ? Recomputed::kNormsAndActivations
                                          : Recomputed::kNothing;
}

// What is known of the programs: which messages they hide, what they fuse and what they send.
TrainerTraits set_traits(Run& run, const Json& row) {
  EngineSpec& spec = run.work.spec;
  const std::string& s = run.source;
  const bool several = run.work.mesh.tensor > 1;
  TrainerTraits traits;
  spec.parallelism.sequence = several;
  // Megatron-LM's buckets are of at least 40 million elements.
  spec.bucket = 40'000'000;
  if (has(s, "SC21")) {
    traits = {.flash_attention = false,
              .fused_loss = false,
              .overlaps_data = false,
              .whole_recompute = true,
              .divides_boundary = true,
              .gradient_bytes = 2};
    spec.parallelism.sequence = false;
    spec.parallelism.zero = has(run.note, "ZeRO-3") ? 3 : 0;
    // DeepSpeed gathers each of a layer's four matrices by itself, when it is needed.
    if (spec.parallelism.zero == 3) traits.messages_per_layer = 4;
  } else if (has(s, "Korthikanti")) {
    traits = {.flash_attention = false,
              .fused_loss = false,
              .overlaps_data = false,
              .whole_recompute = true,
              .divides_boundary = true,
              .tensor_overlap = TensorOverlap::kWeightGradients,
              .gradient_bytes = 2};
    spec.parallelism.sequence = has(run.recompute, "SP");
    spec.parallelism.zero = 0;
  } else if (has(s, "Megatron-LM README") || has(s, "NeMo")) {
    traits = {.fused_loss = false,
              .divides_boundary = true,
              .tensor_overlap = TensorOverlap::kAll,
              .gradient_bytes = has(s, "NeMo") ? 2.0 : 4.0};
  } else if (has(s, "torchtitan")) {
    const bool compiled = has(run.note, "compile") || several;
    traits = {
        .attention_kernels = kFlashAttention2,
        .fused = compiled,
        .fused_loss = false,
        .tensor_overlap = has(run.note, "async TP") ? TensorOverlap::kAll : TensorOverlap::kNone};
    spec.parallelism.zero = 3;
  } else if (has(s, "llm.c") || has(s, "llmq")) {
    traits.gradient_bytes = 2;
  } else if (has(s, "nanotron")) {
    spec.bucket = 6'250'000;  // PyTorch's DistributedDataParallel
    traits = {.attention_kernels = kFlashAttention2,
              .fused_loss = false,
              .overlaps_data = false,
              .tensor_overlap = TensorOverlap::kWeightGradients};
    spec.parallelism.zero = has(run.note, "ZeRO-1") ? 1 : 0;
  } else if (has(s, "Llama 3 Herd")) {
    traits = {.fused_loss = false, .divides_boundary = true};
  } else if (has(s, "llm-foundry")) {
    traits = {.attention_kernels = kFlashAttention2,
              .fused = false,
              .whole_recompute = true,
              .gradient_bytes = 2};
    spec.parallelism.zero = 3;
  }
  traits.recomputed = recomputed_by(row.at("recompute"));
  return traits;
}

std::string reason_against(const Run& run, const std::string& precision) {
  if (has(precision, "rowwise")) {
    return "scales by row: the float8 rate is for scales by tensor";
  }
  if (run.work.spec.parallelism.zero == 3 && has(run.source, "SC21")) {
    return "DeepSpeed's host gathers parameter by parameter, and how long it waits is not "
           "published";
  }
  return {};
}

// Where the micro-batch is not published, one sequence; torchtitan makes as many micro-batches as
// stages, and one without a pipeline.
std::int64_t micro_batch_of(const Run& run, const Json& row, std::int64_t sequences) {
  if (const std::int64_t given = integer(row, "mbs"); given > 0) return given;
  if (!has(run.source, "torchtitan")) return 1;
  return std::max<std::int64_t>(1, sequences / run.work.mesh.pipeline);
}

// Where virtual stages are not published: one layer each, where that divides.
void set_stages(Run& run, const Json& row) {
  Workload& w = run.work;
  w.spec.parallelism.virtual_stages = integer(row, "vp");
  const std::int64_t layers = w.spec.model.num_hidden_layers, ranks = w.mesh.pipeline;
  const bool unknown = has(run.note, "VP not published") || has(run.source, "Llama 3 Herd");
  if (unknown && ranks > 1 && w.spec.micro_batches % ranks == 0) {
    w.spec.parallelism.virtual_stages = layers / ranks;
  }
  const std::int64_t stages = ranks * w.spec.parallelism.virtual_stages;
  if (w.spec.parallelism.virtual_stages > 1) w.spec.parallelism.schedule = "Interleaved1F1B";
  if (layers % stages == 0) {
    w.spec.parallelism.layers_per_stage.assign(static_cast<std::size_t>(stages), layers / stages);
  }
}

Run run_from(const Json& row, const Json& models) {
  Run run;
  run.source = row.at("src");
  run.model = row.at("model");
  run.note = row.at("note");
  run.recompute = row.at("recompute");
  run.gpu = row.at("gpu");
  Workload& w = run.work;
  EngineSpec& spec = w.spec;
  spec.model = model_from(models.at(run.model));
  const std::string precision = row.at("prec");
  spec.compute = DType::kBf16;
  if (has(precision, "fp8")) spec.precision = MatmulPrecision::kFloat8;
  spec.data.document_mask = true;
  spec.training.seq_len = integer(row, "seq");
  spec.model.max_position_embeddings = spec.training.seq_len;
  w.mesh = {.pipeline = integer(row, "pp"),
            .data_shard = integer(row, "dp"),
            .context = integer(row, "cp"),
            .tensor = integer(row, "tp")};
  const std::int64_t sequences = integer(row, "gbs_seq") / w.mesh.data_shard;
  spec.training.local_batch_size =
      std::min(micro_batch_of(run, row, sequences), std::max<std::int64_t>(sequences, 1));
  spec.micro_batches = std::max<std::int64_t>(1, sequences / spec.training.local_batch_size);
  run.ops = ops_of(w, set_traits(run, row));
  set_stages(run, row);
  run.reason = reason_against(run, precision);
  const double tokens = static_cast<double>(w.tokens());
  const double ranks = static_cast<double>(w.ranks());
  const double flops =
      flops_per_token(spec.model, static_cast<double>(spec.training.seq_len), row.at("flop_conv"));
  // Of the GPU's peak in bfloat16.
  const double peak = has(run.gpu, "A100") ? 312e12 : 989.4e12;
  if (const double seconds = number(row, "iter_s"); seconds > 0) {
    run.measured = seconds;
  } else if (const double rate = number(row, "tok_s_gpu"); rate > 0) {
    run.measured = tokens / (rate * ranks);
  } else if (const double tera = number(row, "tflops_gpu"); tera > 0) {
    run.measured = flops * tokens / (tera * 1e12 * ranks);
  } else {
    run.measured = flops * tokens / (number(row, "mfu_pct") / 100 * peak * ranks);
  }
  return run;
}

}  // namespace

std::vector<Run> read(const std::filesystem::path& path) {
  std::ifstream file(path);
  require(file.good(), "cannot read ", path.string());
  const Json json = Json::parse(file);
  std::vector<Run> runs;
  for (const Json& row : json.at("rows")) {
    Run run = run_from(row, json.at("models"));
    run.number = static_cast<int>(runs.size());
    runs.push_back(std::move(run));
  }
  std::map<std::pair<std::string, NumberFormat>, std::vector<Run*>> groups;
  for (Run& run : runs) {
    if (run.reason.empty()) groups[{run.gpu, run.work.numbers()}].push_back(&run);
  }
  for (const auto& [kind, group] : groups) {
    for (std::size_t i = 0; i < group.size(); ++i) {
      group[i]->fitted = group.size() > 1 && i % 2 == 0;
    }
  }
  return runs;
}

DeviceProfile profile_of(const std::string& gpu) {
  DeviceProfile profile = find_profile(gpu);
  if (gpu == "H200") {
    const DeviceProfile h100 = find_profile("H100");
    profile.rates = h100.rates;
    profile.streamed = h100.streamed;
    profile.launch = h100.launch;
  }
  for (ProductRate& rate : profile.rates) rate.own_flash = 0;
  return profile;
}

StepEstimate estimate(const Run& run, const DeviceProfile& device) {
  return estimate_step(run.work, run.ops, device);
}

double error(const Run& run, const DeviceProfile& device) {
  return estimate(run, device).seconds / run.measured - 1;
}

double percentile(std::vector<double> values, double share) {
  require(!values.empty(), "a percentile of nothing");
  std::sort(values.begin(), values.end());
  const auto last = static_cast<double>(values.size() - 1);
  return values[static_cast<std::size_t>(std::ceil(share * last))];
}

double median(std::vector<double> values) {
  return percentile(std::move(values), 0.5);
}

}  // namespace trireme::published
