#include "trainer/tools/verify/configs.h"

#include <algorithm>
#include <sstream>
#include <vector>

#include "model/base/error.h"
#include "trainer/config/difference.h"
#include "trainer/config/for_ranks.h"
#include "trainer/config/reader.h"

namespace trireme::verify {
namespace {

struct ReferenceSpec {
  bool alone = false, float64 = false;
  std::vector<Override> overrides;
};

ReferenceSpec parse(const std::string& text) {
  ReferenceSpec against{.alone = text.empty(), .overrides = {}};
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    while (word.starts_with('-')) word.erase(0, 1);
    const std::size_t equals = word.find('=');
    if (word == "alone") {
      against.alone = true;
    } else if (word == "float64") {
      against.alone = against.float64 = true;
    } else if (equals != std::string::npos && word.find('.') < equals) {
      against.overrides.push_back({word.substr(0, equals), word.substr(equals + 1)});
    } else {
      throw ConfigError(say("--against: \"", word,
                            "\": expected alone, float64 or key=value, such ",
                            "as parallelism.tensor=1"));
    }
  }
  return against;
}

// Keys that must be equal in both configs.
void require_same_task(const RunConfig& subject, const RunConfig& reference) {
  static const std::vector<std::string> kShared{"model.",
                                                "data.",
                                                "optimizer.",
                                                "job.seed",
                                                "training.seq_len",
                                                "training.local_batch_size",
                                                "training.global_batch_size",
                                                "training.max_norm"};
  std::string lines;
  for (const Change& change : difference(subject, reference)) {
    const bool shared = std::any_of(kShared.begin(), kShared.end(), [&](const std::string& key) {
      return change.key.starts_with(key);
    });
    const bool applies = !change.before.empty() && !change.after.empty();  // in both configs
    if (shared && applies)
      lines += say("\n  ", change.key, ": ", change.before, " -> ", change.after);
  }
  if (!lines.empty()) {
    throw ConfigError(
        "--against must not change the model, the samples or the optimizer; these keys differ:" +
        lines);
  }
}

void refuse_compression(const RunConfig& config) {
  if (config.parallelism.compression.method == CompressionOptions::Method::kNone) return;
  throw ConfigError(
      "compressed gradients differ by design; to verify the layout, set "
      "parallelism.gradient_compression = \"none\"");
}

}  // namespace

Configs read_configs(const std::filesystem::path& file, std::span<const Override> overrides,
                     const std::string& against, int ranks) {
  const ReferenceSpec other = parse(against);
  Configs configs;
  const LoadedConfig loaded = load_config(file, overrides);
  const auto least = static_cast<int>(world_size(loaded.config.parallelism));
  configs.subject = for_ranks(loaded, ranks > 0 ? ranks : least);
  std::vector<Override> all(overrides.begin(), overrides.end());
  all.insert(all.end(), other.overrides.begin(), other.overrides.end());
  LoadedConfig reference = load_config(file, all);
  if (other.alone) {
    reference.config.parallelism = {.layers_per_stage = {}, .data_shard = 1};
  }
  if (other.float64) reference.config.training.dtype = "float64";
  const auto needed = static_cast<int>(world_size(reference.config.parallelism));
  const char* const kBatch = "training.global_batch_size";
  if (reference.origin(kBatch).kind == Origin::Kind::kDerived) {
    reference.config.training.global_batch_size = configs.subject.config.training.global_batch_size;
    reference.origins[kBatch] = {Origin::Kind::kCommandLine, 0, 0};
  }
  configs.reference = for_ranks(reference, needed);
  for (const RunConfig* config : {&configs.subject.config, &configs.reference.config}) {
    refuse_compression(*config);
  }
  require_same_task(configs.subject.config, configs.reference.config);
  configs.ranks = static_cast<int>(std::max(world_size(configs.subject.config.parallelism),
                                            world_size(configs.reference.config.parallelism)));
  return configs;
}

}  // namespace trireme::verify
