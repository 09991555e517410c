#include "tests/trainer/tools/plan/published_runs.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>

#include "model/base/error.h"
#include "tests/trainer/tools/plan/published_layouts.h"
#include "tests/trainer/tools/plan/published_traits.h"
#include "trainer/config/flavors.h"

namespace trireme::published {
namespace {

using Json = nlohmann::json;

double number(const Json& row, const char* key) {
  return row.at(key).is_null() ? 0 : row.at(key).get<double>();
}

std::int64_t integer(const Json& row, const char* key) {
  return row.at(key).is_null() ? 0 : row.at(key).get<std::int64_t>();
}

ModelConfig model_from(const Json& m) {
  if (m.contains("flavor")) return find_flavor(m.at("flavor").get<std::string>()).value();
  ModelConfig c;
  const bool gated = m.at("gated");
  c.norm = gated ? NormKind::kRmsNorm : NormKind::kLayerNorm;
  c.position = gated || m.value("rotary", false) ? PositionKind::kRotary : PositionKind::kLearned;
  c.activation = gated ? Activation::kSilu : Activation::kGeluTanh;
  if (m.value("activation", "") == "relu2") c.activation = Activation::kRelu2;
  if (m.value("olmo2",
              false)) {  // norms of attention's and the MLP's results, all queries, all keys
    c.norm_placement = NormPlacement::kPost;
    c.qk_norm = true;
    c.qk_norm_by_head = false;
  }
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

std::string reason_against(const Run& run, const std::string& precision) {
  if (says(precision, "rowwise")) {
    return "scales by row: the float8 rate is for scales by tensor";
  }
  if (run.work.spec.parallelism.zero == 3 && says(run.source, "SC21")) {
    return "DeepSpeed's host gathers parameter by parameter, and how long it waits is not "
           "published";
  }
  return {};
}

Run run_from(const Json& row, const Json& models) {
  Run run;
  run.source = row.at("src");
  for (const Source& source : sources()) {
    if (says(run.source, source.name)) run.group = source.name;
  }
  require(!run.group.empty(), "no source ", run.source);
  run.is_python = run.group != "llmq" && run.group != "llm.c";
  run.model = row.at("model");
  run.note = row.at("note");
  run.recompute = row.at("recompute");
  run.gpu = row.at("gpu");
  run.gigabits_between = row.value("net_gbit_per_gpu", 0.0);
  Workload& w = run.work;
  EngineSpec& spec = w.spec;
  spec.model = model_from(models.at(run.model));
  const std::string precision = row.at("prec");
  spec.compute = DType::kBf16;
  if (says(precision, "fp8") || says(precision, "fp4")) spec.precision = MatmulPrecision::kFloat8;
  spec.data.document_mask = true;
  spec.training.seq_len = integer(row, "seq");
  spec.model.max_position_embeddings = spec.training.seq_len;
  const std::int64_t replicas = row.value("replicas", std::int64_t{1});
  w.mesh = {.pipeline = integer(row, "pp"),
            .data_replicate = replicas,
            .data_shard = integer(row, "dp") / replicas,
            .context = integer(row, "cp"),
            .tensor = integer(row, "tp"),
            .expert = row.contains("ep") ? integer(row, "ep") : 1};
  spec.parallelism.expert = w.mesh.expert;
  const std::int64_t sequences =
      std::max<std::int64_t>(1, integer(row, "gbs_seq") / integer(row, "dp"));
  const double tokens = static_cast<double>(integer(row, "gbs_seq") * spec.training.seq_len);
  const double flops =
      flops_per_token(spec.model, static_cast<double>(spec.training.seq_len), row.at("flop_conv"));
  const std::int64_t virtual_stages = run.group == "Llama 3 Herd"
                                          ? spec.model.num_hidden_layers / w.mesh.pipeline + 1
                                      : says(run.note, "VP not published") ? 0
                                                                           : integer(row, "vp");
  const TrainerTraits traits = set_traits(run, precision);
  run = fastest(run, traits, sequences, std::min(integer(row, "mbs"), sequences), virtual_stages);
  run.reason = reason_against(run, precision);
  run.gib = number(row, "mem_gib");
  const double ranks = static_cast<double>(run.work.ranks());
  // Of the GPU's peak in bfloat16.
  const double peak = says(run.gpu, "A100") ? 312e12 : 989.4e12;
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

DeviceProfile device_of(const Run& run, const Profiles& profiles) {
  DeviceProfile device = profiles.at(run.gpu);
  device.narrow = run.narrow;
  if (device.network.even) device.network = with_even_nodes(device.network, run.work.ranks());
  if (run.gigabits_between > 0) device.network.between.bandwidth = run.gigabits_between / 8 * 1e9;
  return device;
}

// Of messages of the ends' weights and gradients, which a micro-batch waits for.
double waiting_for_ends(const Run& run, const DeviceProfile& device) {
  if (!run.waits_for_ends) return 0;
  double seconds = 0;
  for (const PartOps::List* list : {&run.ops.first.forward, &run.ops.first.backward}) {
    for (const PlannedOp& op : *list) {
      if (op.kind != PlannedOp::Kind::kMessage || !std::string_view(op.name).starts_with("data"))
        continue;
      seconds +=
          collective_seconds(device.network, op.collective, group_of(op.name, run.work), op.bytes);
    }
  }
  return seconds * static_cast<double>(run.work.spec.micro_batches);
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
  return runs;
}

RunConfig config_of(const Run& run) {
  const Workload& work = run.work;
  RunConfig config = work.spec;
  config.training.dtype = work.spec.precision == MatmulPrecision::kFloat8 ? "float8" : "bfloat16";
  config.training.global_batch_size = work.mesh.data_replicate * work.mesh.data_shard *
                                      work.spec.micro_batches * work.spec.training.local_batch_size;
  const Recomputed recomputed = recomputed_by(run);
  if (recomputed == Recomputed::kAll) {
    config.activation_checkpoint.mode = Recompute::kFull;
  } else if (recomputed != Recomputed::kNothing && recomputed != Recomputed::kAttention) {
    config.activation_checkpoint.mode = Recompute::kSelective;
  }
  config.parallelism.pipeline = work.mesh.pipeline;
  config.parallelism.data_replicate = work.mesh.data_replicate;
  config.parallelism.data_shard = work.mesh.data_shard;
  config.parallelism.context = work.mesh.context;
  config.parallelism.tensor = work.mesh.tensor;
  return config;
}

const std::vector<Source>& sources() {
  // In the order of the SHA-256 of their names, of which the lot takes the first two; SimuMax was
  // added afterwards, as a test of the B200, and those after it as tests of all.
  static const std::vector<Source> kSources{{"torchtitan", 1},
                                            {"SC21", 1},
                                            {"llm-foundry"},
                                            {"Llama 3 Herd"},
                                            {"Korthikanti"},
                                            {"Megatron-LM README"},
                                            {"llmq"},
                                            {"nanotron"},
                                            {"llm.c"},
                                            {"NeMo"},
                                            {"SimuMax", 0, true},
                                            {"Megatron Bridge", 0, true},
                                            {"AutoModel", 0, true},
                                            {"Nemotron-4", 2, true},
                                            {"OLMo", 2, true},
                                            {"fms-fsdp", 3, true},
                                            {"LitGPT", 3, true}};
  return kSources;
}

bool is_unseen(const std::string& source) {
  return std::any_of(sources().begin(), sources().end(),
                     [&](const Source& one) { return one.name == source && one.is_unseen(); });
}

const Fitted& fitted() {
  static const Fitted kFitted{fitted_efficiencies(), 0.0361, 2e-5};
  return kFitted;
}

Profiles profiles_of(const Fitted& fitted) {
  Profiles profiles;
  for (const DeviceProfile& profile : listed_profiles(fitted)) profiles[profile.name] = profile;
  const DeviceProfile& h100 = profiles.at("H100");
  DeviceProfile& h200 = profiles.at("H200");
  h200.rates = h100.rates;
  h200.streamed = h100.streamed;
  h200.launch = h100.launch;
  for (auto& [name, profile] : profiles) {
    for (ProductRate& rate : profile.rates) rate.own_flash = 0;
  }
  return profiles;
}

StepEstimate estimate(const Run& run, const Profiles& profiles) {
  return estimate_step(run.work, run.ops, device_of(run, profiles), *run.schedule);
}

double seconds(const Run& run, const Fitted& fitted, const Profiles& profiles) {
  return estimate(run, profiles).seconds + (run.is_python ? fitted.step_seconds : 0) +
         run.slices * fitted.slice_seconds + waiting_for_ends(run, device_of(run, profiles));
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
