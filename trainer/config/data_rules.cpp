#include <cstdint>
#include <filesystem>
#include <set>

#include "model/base/error.h"
#include "trainer/config/rule_check.h"
#include "trainer/config/rules_by_subject.h"
#include "trainer/config/value_text.h"
#include "trainer/telemetry/metric_name.h"

namespace trireme {
namespace {

class DataRules : public RuleCheck {
 public:
  using RuleCheck::RuleCheck;

  void data() {
    const DataConfig& d = c_.data;
    const bool may_lack_data = purpose_ == Purpose::kPlanning && d.train.empty();
    check(!d.train.empty() || may_lack_data, {"data.train"},
          "nothing to train on; give train = [{ path = \"PREFIX\" }]", false);
    stages();
    if (d.order == "megatron") megatron_order();
    check(d.validation.empty() || d.split == 0, {"data.split", "data.validation"},
          "contradicts data.validation; give one of them");
    const bool asks = !c_.validation.multiple_choice.empty();
    check(may_lack_data || c_.validation.freq == 0 || !d.validation.empty() || d.split > 0 || asks,
          {"validation.freq", "data.validation", "data.split"},
          "nothing to validate on; give data.validation or data.split");
    if (asks) questions();
    if (c_.validation.sample_freq > 0) samples();
  }

 private:
  // Their answers go by the names of the files.
  void questions() {
    const std::string key = "validation.multiple_choice";
    check(c_.validation.freq > 0, {key, "validation.freq"},
          "is asked at validations, and there are none; give validation.freq");
    std::set<std::string> names;
    for (const std::string& file : c_.validation.multiple_choice) {
      const std::string name = std::filesystem::path(file).stem().string();
      check(is_metric_name(name), {key},
            say("the metrics of ", to_toml(file), " are called after it, which must be ",
                kMetricNameWords));
      check(names.insert(name).second, {key}, say("has two files of the name ", to_toml(name)));
    }
  }

  // One rank computes a sample with weights that it has whole.
  void samples() {
    const std::string key = "validation.sample_freq";
    const ParallelismConfig& p = c_.parallelism;
    const auto alone = [&](bool holds, const char* axis, const std::string& what) {
      check(holds, {key, axis},
            say("samples are computed by a rank that has the whole model, and ", what,
                "; set it to 0, and sample from the checkpoints by 'trireme generate'"));
    };
    alone(p.tensor == 1, "parallelism.tensor", say("parallelism.tensor is ", p.tensor));
    alone(p.pipeline == 1, "parallelism.pipeline", say("parallelism.pipeline is ", p.pipeline));
    alone(p.virtual_stages == 1, "parallelism.virtual_stages",
          say("parallelism.virtual_stages is ", p.virtual_stages));
    alone(p.zero < 3, "parallelism.zero", say("parallelism.zero is ", p.zero));
    check(c_.training.dtype != "float8", {key, "training.dtype"},
          "float8 multiplies many tokens at once, and a sample has one; set it to 0, and sample "
          "from the checkpoints by 'trireme generate'");
    check(c_.validation.sample_tokens < c_.training.seq_len,
          {"validation.sample_tokens", "training.seq_len", key},
          say("a sample and what it continues have room in training.seq_len = ",
              c_.training.seq_len, " tokens"));
  }

  void stages() {
    std::int64_t before = 0;
    for (const DataStage& stage : c_.data.stages) {
      const auto wrong = [&](bool holds, const std::string& what) {
        check(holds, {"data.stages"}, say("from_step = ", stage.from_step, ": ", what), false);
      };
      wrong(stage.from_step > before, "stages must follow each other");
      wrong(!stage.train.empty(), "nothing to train on; give train = [{ path = \"PREFIX\" }]");
      before = stage.from_step;
    }
    if (c_.data.stages.empty()) return;
    // Where a source is in its data could not be told from where its double is.
    const auto once = [&](const std::vector<DataSource>& sources) {
      std::set<std::filesystem::path> seen;
      for (const DataSource& source : sources) {
        check(seen.insert(source.path).second, {"data.stages", "data.train"},
              say(source.path.string(),
                  " stands twice in one stage; give it once, with both weights "
                  "together"),
              false);
      }
    };
    once(c_.data.train);
    for (const DataStage& stage : c_.data.stages) once(stage.train);
  }

  void megatron_order() {
    check(c_.data.stages.empty(), {"data.order", "data.stages"},
          "Megatron-LM knows no stages; remove data.stages, or take the order \"trireme\"");
    check(c_.job.seed <= UINT32_MAX, {"job.seed", "data.order"},
          "Megatron-LM's order takes seeds up to 4294967295");
  }
};

}  // namespace

void data_rules(const LoadedConfig& loaded, Complaints& complaints, Purpose purpose) {
  DataRules rules(loaded, complaints, purpose);
  rules.data();
}

}  // namespace trireme
