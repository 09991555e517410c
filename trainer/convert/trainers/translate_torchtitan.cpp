#include <algorithm>
#include <cctype>

#include "trainer/config/flavors.h"
#include "trainer/convert/trainers/translation.h"

namespace trireme {
namespace {

// "llama3" and "8B" -> "llama3-8b"
std::string flavor_of(const ForeignConfig& from) {
  std::string flavor = from.text("model.name") + "-" + from.text("model.flavor");
  for (char& c : flavor) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return flavor;
}

}  // namespace

void Translation::torchtitan_disabled(const ForeignConfig& from) {
  // Keys of a disabled section have no effect. Validation is off by default.
  for (const char* section : {"validation", "checkpoint", "fault_tolerance", "profiling"}) {
    const std::string start = std::string(section) + ".";
    std::string enabled = from.text(start + "enable");
    if (enabled.empty()) enabled = from.text(start + "enable_" + section);
    const bool is_off_by_default = start == "validation.";
    if (enabled != "false" && (!is_off_by_default || !enabled.empty())) {
      if (!enabled.empty())
        use(start + (from.find(start + "enable") ? "enable" : "enable_checkpoint"));
      continue;
    }
    for (const ForeignConfig::Entry& entry : from.entries) {
      if (entry.key.starts_with(start) && !used_[entry.key]) note(entry, say(section, " is off"));
    }
    if (start == "checkpoint.") {
      set("checkpoint.interval", "0", "checkpointing is off; only the end of the run is saved");
    }
  }
  if (from.text("model.converters").empty()) {
    for (const ForeignConfig::Entry& entry : from.entries) {
      const bool converts = entry.key.starts_with("float8.") || entry.key.starts_with("quantize.");
      if (converts && !used_[entry.key]) note(entry, "no converter uses it");
    }
  }
}

void Translation::torchtitan_flavor(const ForeignConfig& from) {
  const std::string flavor = flavor_of(from);
  const auto names = flavor_names();
  if (from.find("model.name") != nullptr &&
      std::find(names.begin(), names.end(), flavor) == names.end()) {
    for (const char* key : {"model.name", "model.flavor"}) {
      if (const auto* entry = from.find(key)) {
        leave(*entry,
              "unknown flavor " + flavor + "; use --leave-out and set the sizes in [model]");
      }
    }
  } else if (from.find("model.name") != nullptr) {
    use("model.name");
    use("model.flavor");
    set("model.flavor", flavor, "model.name, model.flavor");
  }
}

void Translation::torchtitan_rate(const ForeignConfig& from) {
  // Without decay_ratio the learning rate decays right after the warmup.
  const bool has_plateau = from.find("lr_scheduler.decay_ratio") != nullptr;
  std::string shape = from.text("lr_scheduler.decay_type");
  if (shape.empty()) shape = "linear";
  if (has_plateau) {
    set("lr_scheduler.name", "wsd", "lr_scheduler.decay_ratio");
    apply(from, {{"lr_scheduler.decay_ratio", "lr_scheduler.decay_ratio"},
                 {"lr_scheduler.decay_type", "lr_scheduler.decay_type", {}, "linear"}});
  } else if (set("lr_scheduler.name", shape, "lr_scheduler.decay_type")) {
    use("lr_scheduler.decay_type");
  }
}

void Translation::torchtitan(const ForeignConfig& from) {
  torchtitan_disabled(from);
  const std::string stages = from.text("parallelism.pipeline_parallel_degree");
  const auto* schedule = from.find("parallelism.pipeline_parallel_schedule");
  if (schedule != nullptr && (stages.empty() || stages == "1")) note(*schedule, "no pipeline");
  if (const auto* load = from.find("checkpoint.initial_load_path");
      load != nullptr && !from.text(load->key).empty() && !used_[load->key]) {
    leave(*load, "loads torchtitan weights; convert them with 'trireme checkpoint import'");
  }
  apply(from, torchtitan_keys());
  if (const auto* batch = from.find("training.global_batch_size")) {
    use(batch->key);
    if (from.text(batch->key) != "-1" &&
        !set("training.global_batch_size", from.text(batch->key), batch->key)) {
      leave(*batch, "not a number of sequences");
    }
  }
  if (const auto* shard = from.find("parallelism.data_parallel_shard_degree")) {
    use(shard->key);
    const std::string degree = from.text(shard->key);
    if (!set("parallelism.data_shard", degree == "-1" ? "0" : degree, shard->key)) {
      leave(*shard, "not a number of ranks");
    }
  }
  set("parallelism.zero", "3", "torchtitan shards weights (FSDP)");
  torchtitan_flavor(from);
  torchtitan_rate(from);
}

}  // namespace trireme
