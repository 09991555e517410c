#include "trainer/commands/command.h"
#include "trainer/commands/failure_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "model/base/file.h"
#include "model/base/human.h"
#include "model/base/log.h"
#include "model/device/cpu/threads.h"
#include "trainer/config/effective.h"
#include "trainer/config/for_ranks.h"
#include "trainer/config/notes.h"
#include "trainer/config/reader.h"
#include "trainer/engine/fit.h"
#include "trainer/telemetry/progress_line.h"
#include "trainer/tools/plan/device/matmul_format.h"
#include "trainer/tools/plan/search/search.h"
#include "trainer/tools/plan/show/compare.h"
#include "trainer/tools/plan/show/explain.h"
#include "trainer/tools/plan/show/plan_json.h"
#include "trainer/tools/plan/show/plan_page.h"
#include "trainer/tools/plan/show/plan_text.h"
#include "trainer/tools/plan/show/search_text.h"

namespace trireme {
namespace {

struct PlanChoices {
  std::string config;
  int ranks = 0;           // 0: from the layout
  std::string compared;    // another config; empty: none
  int compared_ranks = 0;  // 0: as many
  std::string gpu;
  std::string matmul_format;  // "mxfp8" or "nvfp4"; empty: of the config
  bool search = false;
  bool json = false;
  std::string html, write;
  PlanOptions options;
};

struct Planned {
  LoadedConfig loaded;
  DeviceProfile profile;
  Device device;
};

void print(const std::string& text) {
  const bool is_written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!is_written || std::fflush(stdout) != 0) {
    throw EnvironmentError("cannot write to standard output");
  }
}

// Loads the config and the profile of the device: a GPU by name, or the CPU of this machine.
Planned opened(const PlanChoices& choices, const std::string& config,
               const std::vector<Override>& overrides) {
  Planned planned{
      .loaded = load_config(config, overrides, Purpose::kPlanning), .profile = {}, .device = {}};
  for (const std::string& note : config_notes(planned.loaded.config)) log_warning("{}", note);
  JobConfig& job = planned.loaded.config.job;
  if (choices.gpu.empty() && job.device == "cuda") {
    throw ConfigError(
        "job.device = \"cuda\": the GPU type is unknown; give --gpu NAME, such as --gpu H100");
  }
  planned.profile = find_profile(choices.gpu.empty() ? "CPU" : choices.gpu);
  if (!choices.matmul_format.empty()) {
    if (planned.loaded.config.training.dtype == "float32") {
      throw ConfigError("--matmul-format: training.dtype = \"float32\" has no matmuls in 16 bits");
    }
    planned.profile = with_matmul_format(planned.profile, choices.matmul_format == "mxfp8"
                                                              ? NumberFormat::kMxfp8
                                                              : NumberFormat::kNvfp4);
  }
  planned.device = planned.profile.device();
  job.device = planned.device.is_cuda() ? "cuda" : "cpu";
  return planned;
}

int ranks_of(int asked, const LoadedConfig& loaded) {
  return asked > 0 ? asked : static_cast<int>(world_size(loaded.config.parallelism));
}

// Completes the layout for the ranks that an option asks for.
void complete_layout(Planned& planned, int ranks, const char* option) {
  planned.loaded = for_ranks(planned.loaded, ranks);
  const std::int64_t needed = world_size(planned.loaded.config.parallelism);
  if (needed == ranks) return;
  throw ConfigError(say(option, " ", ranks, ": [parallelism] of ", planned.loaded.source, " needs ",
                        needed, " ranks"));
}

void place(DeviceProfile& profile, int ranks) {
  profile.network = with_even_nodes(profile.network, ranks);
}

void require_divided_experts(const PlanOptions& options, bool has_divided) {
  if (options.expert_imbalance == 1 || has_divided) return;
  throw ConfigError(
      "--expert-imbalance has no effect with parallelism.expert = 1, where each rank has all "
      "experts; remove it, or set parallelism.expert");
}

// `config` with what the search has chosen, each such value marked as derived.
LoadedConfig with_search_result(const LoadedConfig& loaded, const RunConfig& config) {
  LoadedConfig with = loaded;
  with.config = config;
  for (const char* key :
       {"parallelism.tensor", "parallelism.sequence", "parallelism.pipeline",
        "parallelism.schedule", "parallelism.virtual_stages", "parallelism.layers_per_stage",
        "parallelism.context", "parallelism.context_method", "parallelism.context_ulysses",
        "parallelism.expert", "parallelism.data_replicate", "parallelism.data_shard",
        "parallelism.zero", "training.local_batch_size", "activation_checkpoint.mode"}) {
    with.origins[key] = {Origin::Kind::kDerived, 0, 0};
  }
  return with;
}

// Why a search has found nothing.
[[noreturn]] void refuse(const SearchResult& result, int ranks, const RunConfig& config) {
  if (result.considered == 0) {
    throw ConfigError(fmt::format(
        "no layout of {} ranks divides training.global_batch_size = {}: the degrees of "
        "the other axes leave {} data ranks; change -n or the batch size",
        ranks, config.training.global_batch_size, fmt::join(result.data_ranks_left, " or ")));
  }
  if (result.rejected.too_large == 0) {
    throw ConfigError(
        "no layout of " + std::to_string(ranks) +
        " ranks satisfies the config rules; the first violates: " + result.rejected.violated);
  }
  throw EnvironmentError(say("no layout of ", ranks,
                             " ranks fits; use more ranks, a smaller "
                             "model or a shorter training.seq_len"));
}

std::string changes_that_fit(const RunPlan& plan) {
  const auto available = static_cast<std::size_t>(plan.available);
  std::string text;
  for (const Saving& saving : savings(plan.config, plan.layout.places.front().step.memory.buffers,
                                      plan.layout.device, available)) {
    text += fmt::format("  {} would need {}\n", saving.change, human_bytes(saving.bytes));
  }
  return text.empty() ? "\n"
                        "It does not fit, and no layout, micro-batch size or recomputation mode "
                        "makes it fit.\n"
                      : "\n"
                        "It does not fit. Changes that would make it fit:\n" +
                            text;
}

ExitCode plan(const PlanChoices& choices, const std::vector<Override>& overrides) {
  Planned planned = opened(choices, choices.config, overrides);
  const int ranks = ranks_of(choices.ranks, planned.loaded);
  place(planned.profile, ranks);
  if (!planned.device.is_cuda()) cpu::use_threads(planned.loaded.config.job.threads, ranks);
  const Canvas canvas{.columns = terminal_width(STDOUT_FILENO),
                      .colors = ::isatty(STDOUT_FILENO) == 1};
  std::string found;
  nlohmann::ordered_json searched;
  if (choices.search) {
    const SearchResult result = search_layouts(planned.loaded, ranks, planned.profile,
                                               planned.device, choices.options.expert_imbalance);
    found = search_text(result, usable_bytes(planned.profile, planned.device, ranks));
    if (choices.json) searched = search_json(result);
    if (result.best.empty()) {
      print(found);
      refuse(result, ranks, planned.loaded.config);
    }
    planned.loaded = with_search_result(planned.loaded, result.best.front().config);
  } else {
    complete_layout(planned, ranks, "-n");
  }
  require_divided_experts(choices.options,
                          choices.search || planned.loaded.config.parallelism.expert > 1);
  if (!choices.write.empty()) replace_text(choices.write, effective_toml(planned.loaded));
  const RunPlan run =
      plan_run(planned.loaded.config, planned.profile, planned.device, choices.options);
  if (!choices.html.empty()) replace_text(choices.html, plan_page(run, choices.options, found));
  if (choices.json) {
    nlohmann::ordered_json json = plan_json(run, choices.options);
    if (choices.search) json["search"] = std::move(searched);
    print(json.dump(2) + "\n");
  } else {
    print((found.empty() ? "" : found + "\n") + plan_text(run, choices.options, canvas) +
          (run.explanation ? "\n" + explain_text(run) : "") +
          (run.fits() ? "" : changes_that_fit(run)));
  }
  return run.fits() ? ExitCode::kDone : ExitCode::kEnvironment;
}

// Both runs have as many ranks unless the second's are given: figures of a step are of a whole run.
ExitCode compare(const PlanChoices& choices, const std::vector<Override>& overrides) {
  Planned a = opened(choices, choices.config, overrides),
          b = opened(choices, choices.compared, overrides);
  const bool are_given = choices.compared_ranks > 0;
  const int ranks = ranks_of(choices.ranks, a.loaded);
  const int compared = ranks_of(are_given ? choices.compared_ranks : choices.ranks, b.loaded);
  if (!are_given && ranks != compared) {
    throw ConfigError(say("the layout of ", choices.config, " has ", ranks, " ranks and that of ",
                          choices.compared, " ", compared,
                          "; set -n for both, or --compare-ranks for the second"));
  }
  place(a.profile, ranks);
  place(b.profile, compared);
  complete_layout(a, ranks, "-n");
  complete_layout(b, compared, are_given ? "--compare-ranks" : "-n");
  require_divided_experts(choices.options, a.loaded.config.parallelism.expert > 1 ||
                                               b.loaded.config.parallelism.expert > 1);
  const auto planned = [&](const Planned& of, const std::string& name) {
    const RunConfig& config = of.loaded.config;
    if (!of.device.is_cuda()) {
      cpu::use_threads(config.job.threads, static_cast<int>(world_size(config.parallelism)));
    }
    return NamedPlan{name, plan_run(config, of.profile, of.device, choices.options)};
  };
  const NamedPlan first = planned(a, choices.config), second = planned(b, choices.compared);
  print(choices.json ? comparison_json(first, second, choices.options).dump(2) + "\n"
                     : comparison_text(first, second, choices.options));
  return first.plan.fits() && second.plan.fits() ? ExitCode::kDone : ExitCode::kEnvironment;
}

}  // namespace

Command make_plan(CLI::App& program, const std::vector<Override>& overrides) {
  const auto choices = std::make_shared<PlanChoices>();
  PlanOptions& options = choices->options;
  CLI::App* app = program.add_subcommand("plan",
                                         "Predict memory, throughput, communication and cost of a "
                                         "run, or search for the fastest layout");
  app->add_option("CONFIG", choices->config, "Config file (TOML)")->required();
  app->add_option("-n,--ranks", choices->ranks,
                  "Number of ranks, if a data-parallel degree is 0 (default: as few as the other "
                  "degrees need)")
      ->check(CLI::Range(1, 1 << 24));
  app->add_option("--gpu", choices->gpu,
                  "GPU of each rank, one of " + listed_names() +
                      ", or a profile written by 'trireme doctor --calibrate' (default: CPU)")
      ->type_name("NAME");
  app->add_option("--matmul-format", choices->matmul_format,
                  "Assume that the blocks' matmuls are in this format, with the passes that "
                  "quantize their operands: mxfp8 or nvfp4. Of times alone: the trainer cannot run "
                  "it, and memory is that of the config")
      ->check(CLI::IsMember({"mxfp8", "nvfp4"}))
      ->type_name("FORMAT");
  CLI::Option* const search = app->add_flag("--search", choices->search,
                                            "Search for the fastest layout that fits in memory");
  CLI::Option* const write =
      app->add_option("--write", choices->write,
                      "Write the full config of the planned run to this file")
          ->type_name("FILE");
  app->add_flag("--json", choices->json, "Print all numbers as JSON");
  CLI::Option* const explain = app->add_flag(
      "--explain", options.explain,
      "Also print where the seconds of a step and the bytes of the largest rank come "
      "from, as trees of exact sums: phases, kinds of layers, ops; with --json all nodes");
  CLI::Option* const html =
      app->add_option("--html", choices->html, "Write the plan as a self-contained HTML page")
          ->type_name("FILE");
  CLI::Option* const compared =
      app->add_option("--compare", choices->compared,
                      "Plan this config too, with the same options and overrides, and print both "
                      "side by side with their differences and the keys that differ")
          ->type_name("FILE")
          ->excludes(search)
          ->excludes(write)
          ->excludes(explain)
          ->excludes(html);
  app->add_option("--compare-ranks", choices->compared_ranks,
                  "Number of ranks of the config to compare with (default: as many as the first "
                  "config's)")
      ->check(CLI::Range(1, 1 << 24))
      ->needs(compared);
  app->add_option("--price", options.price,
                  "Price of a device-hour, in any currency, to compute the cost of the run")
      ->check(number_between(1e-6, 1e9))
      ->type_name("PRICE");
  add_failure_options(*app, options.failures);
  app->add_option("--inference-tokens", options.inference_tokens,
                  "Tokens that the trained model will process and generate in its lifetime, to "
                  "compare the FLOPs of training and inference with the least for the same loss, "
                  "by scaling laws")
      ->check(number_between(1, 1e24))
      ->type_name("TOKENS");
  app->add_option("--expert-imbalance", options.expert_imbalance,
                  "Assumed load of the busiest of the ranks that divide the experts, as a multiple "
                  "of the mean; multiplies the time of the experts' matmuls and of the exchange of "
                  "their rows (at most expert_load_max_over_mean of metrics.jsonl)")
      ->check(number_between(1, 1024))
      ->capture_default_str()
      ->type_name("FACTOR");
  app->footer(
      "Needs no GPU, MPI or data. Memory is computed by the allocator's own planner and is exact;\n"
      "times are estimates. Fails if a run does not fit.\n"
      "\n"
      "Example: trireme plan run.toml -n 1024 --gpu H100 --price 2.5 --mtbf 24 --html plan.html");
  const auto run = [choices, &overrides] {
    require_failures(choices->options.failures);
    return choices->compared.empty() ? plan(*choices, overrides) : compare(*choices, overrides);
  };
  return {app, run, true};
}

}  // namespace trireme
