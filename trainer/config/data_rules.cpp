#include <cstdint>
#include <filesystem>
#include <set>

#include "model/base/error.h"
#include "trainer/config/metric_name.h"
#include "trainer/config/rules.h"
#include "trainer/config/value_text.h"

namespace trireme {
namespace {

class DataRules : public RuleCheck {
 public:
  using RuleCheck::RuleCheck;

  void data() {
    const DataConfig& d = c_.data;
    const bool may_lack_data = purpose_ == Purpose::kPlanning && d.train.empty();
    check(!d.train.empty() || may_lack_data, {"data.train"},
          "no training data; give train = [{ path = \"PREFIX\" }]", false);
    stages();
    if (d.order == "megatron") megatron_order();
    check(d.validation.empty() || d.split == 0, {"data.split", "data.validation"},
          "conflicts with data.validation; set only one of them");
    const bool asks = !c_.validation.multiple_choice.empty();
    check(may_lack_data || c_.validation.freq == 0 || !d.validation.empty() || d.split > 0 || asks,
          {"validation.freq", "data.validation", "data.split"},
          "no validation data; set data.validation or data.split");
    if (asks) questions();
    if (c_.validation.sample_freq > 0) samples();
  }

 private:
  // Metrics are named after the files.
  void questions() {
    const std::string key = "validation.multiple_choice";
    check(c_.validation.freq > 0, {key, "validation.freq"},
          "runs at validations, but validation.freq is 0; set validation.freq");
    std::set<std::string> names;
    for (const std::string& file : c_.validation.multiple_choice) {
      const std::string name = std::filesystem::path(file).stem().string();
      check(is_metric_name(name), {key},
            say("the metrics of ", to_toml(file), " are named after the file, whose name must be ",
                kMetricNameWords));
      check(names.insert(name).second, {key}, say("has two files named ", to_toml(name)));
    }
  }

  // Sampling runs on one rank, which needs unsharded weights.
  void samples() {
    const std::string key = "validation.sample_freq";
    const ParallelismConfig& p = c_.parallelism;
    const auto alone = [&](bool holds, const char* axis, const std::string& what) {
      check(holds, {key, axis},
            say("sampling needs the whole model on one rank, but ", what,
                "; set it to 0 and sample from checkpoints with 'trireme generate'"));
    };
    alone(p.tensor == 1, "parallelism.tensor", trireme::say("parallelism.tensor is ", p.tensor));
    alone(p.pipeline == 1, "parallelism.pipeline",
          trireme::say("parallelism.pipeline is ", p.pipeline));
    alone(p.virtual_stages == 1, "parallelism.virtual_stages",
          trireme::say("parallelism.virtual_stages is ", p.virtual_stages));
    alone(p.expert == 1, "parallelism.expert", trireme::say("parallelism.expert is ", p.expert));
    alone(p.zero < 3, "parallelism.zero", trireme::say("parallelism.zero is ", p.zero));
    check(c_.training.dtype != "float8", {key, "training.dtype"},
          "is not supported with float8, which needs many tokens per matmul; set it to 0 and "
          "sample from checkpoints with 'trireme generate'");
    check(c_.validation.sample_tokens < c_.training.seq_len,
          {"validation.sample_tokens", "training.seq_len", key},
          say("a sample with its prompt must fit in training.seq_len = ", c_.training.seq_len,
              " tokens"));
  }

  void stages() {
    std::int64_t before = 0;
    for (const DataStage& stage : c_.data.stages) {
      const auto wrong = [&](bool holds, const std::string& what) {
        check(holds, {"data.stages"}, say("from_step = ", stage.from_step, ": ", what), false);
      };
      wrong(stage.from_step > before, "stages must be in ascending order of from_step");
      if (stage.rope_scaling) {
        wrong(c_.model.position == PositionKind::kRotary,
              "rope_scaling changes rotary positions, and the model has learned ones");
        // It would be the length of the stage.
        wrong(stage.rope_scaling->type != RopeScaling::Type::kYarn ||
                  stage.rope_scaling->original_max_position_embeddings > 0,
              "rope_scaling needs original_max_position_embeddings, the sequence length before "
              "the extension");
      }
      before = stage.from_step;
    }
    if (c_.data.stages.empty()) return;
    // The positions of two identical sources could not be distinguished.
    const auto once = [&](const std::vector<DataSource>& sources) {
      std::set<std::filesystem::path> seen;
      for (const DataSource& source : sources) {
        check(seen.insert(source.path).second, {"data.stages", "data.train"},
              say(source.path.string(),
                  " appears twice in one stage; give it once, with the sum of both weights"),
              false);
      }
    };
    once(c_.data.train);
    for (const DataStage& stage : c_.data.stages) once(stage.train);
  }

  void megatron_order() {
    check(c_.data.stages.empty(), {"data.order", "data.stages"},
          "Megatron-LM's order has no stages; remove data.stages, or use data.order = \"trireme\"");
    check(c_.job.seed <= UINT32_MAX, {"job.seed", "data.order"},
          "Megatron-LM's order supports seeds up to 4294967295");
  }
};

}  // namespace

void data_rules(const LoadedConfig& loaded, Complaints& complaints, Purpose purpose) {
  DataRules rules(loaded, complaints, purpose);
  rules.data();
}

}  // namespace trireme
