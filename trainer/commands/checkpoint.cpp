#include "trainer/commands/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "checkpoint/read/load.h"
#include "checkpoint/read/statistics.h"
#include "checkpoint/store/diff.h"
#include "checkpoint/store/store.h"
#include "model/base/hex.h"
#include "model/base/human.h"
#include "trainer/commands/checkpoint_export.h"
#include "trainer/commands/checkpoint_import.h"
#include "trainer/commands/checkpoint_merge.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using checkpoint::Manifest;
using checkpoint::Summary;

struct CheckpointOptions {
  std::string path;
  std::string second;
  std::string tensor;
  checkpoint::Retention retention;
};

// A digest as the trainer stores it: a number, or the bits of a float64 or float32 as
// hex digits.
std::string digest(const Manifest& manifest, const char* name) {
  const auto found = manifest.digests.find(name);
  if (found == manifest.digests.end()) return "-";
  if (found->is_number()) return fmt::format("{:.6g}", found->get<double>());
  if (!found->is_string()) return found->dump();
  const auto& text = found->get_ref<const std::string&>();
  if (const auto value = from_hex<double>(text)) return fmt::format("{:.6g}", *value);
  const auto bits = from_hex<std::uint32_t>(text);
  return bits ? fmt::format("{:.6g}", std::bit_cast<float>(*bits)) : text;
}

// One checkpoint, or all of a run folder, newest first.
std::vector<Summary> summaries_of(const fs::path& path) {
  if (checkpoint::is_checkpoint(path)) {
    Manifest manifest = checkpoint::read_manifest(path);
    return {{manifest.step, path, std::move(manifest), ""}};
  }
  std::vector<Summary> summaries = checkpoint::Store(path).list();
  if (summaries.empty()) throw CheckpointError(say(path.string(), " holds no checkpoint"));
  return summaries;
}

// What is wrong as far as that shows without reading the tensors.
std::string state_of(const Summary& summary) {
  if (!summary.manifest) return summary.problem;
  try {
    checkpoint::check_files(summary.folder, *summary.manifest);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

ExitCode list(const CheckpointOptions& options) {
  fmt::print("{:>10}  {:20}  {:>12}  {:>10}  {}\n", "step", "written", "size", "loss", "files");
  for (const Summary& summary : summaries_of(options.path)) {
    const std::string problem = state_of(summary);
    const std::string files = problem.empty() ? "complete" : "damaged: " + problem;
    if (summary.manifest) {
      fmt::print("{:>10}  {:20}  {:>12}  {:>10}  {}\n", summary.step, summary.manifest->written,
                 human_bytes(summary.manifest->bytes()), digest(*summary.manifest, "loss"), files);
    } else {
      fmt::print("{:>10}  {:20}  {:>12}  {:>10}  {}\n", summary.step, "-", "-", "-", files);
    }
  }
  return ExitCode::kDone;
}

void show_tensor(const fs::path& folder, const std::string& name) {
  const auto found = checkpoint::statistics_of(folder, name);
  fmt::print("{}\n  elements    {}\n  zeros       {}\n  not finite  {}\n", name, found.elements,
             found.zeros, found.not_finite);
  fmt::print(
      "  least       {:.9g}\n  most        {:.9g}\n  mean        {:.9g}\n"
      "  deviation   {:.9g}\n",
      found.least, found.most, found.mean, found.deviation);
}

ExitCode show_checkpoint(const CheckpointOptions& options) {
  const fs::path folder = checkpoint::newest_checkpoint(options.path);
  if (!options.tensor.empty()) {
    show_tensor(folder, options.tensor);
    return ExitCode::kDone;
  }
  const Manifest manifest = checkpoint::read_manifest(folder);
  const auto line = [](const char* name, const std::string& value) {
    fmt::print("{:10} {}\n", name, value);
  };
  line("folder", folder.string());
  line("step", std::to_string(manifest.step));
  line("parent", manifest.parent ? std::to_string(*manifest.parent) : "none");
  line("run", manifest.run);
  line("written", manifest.written);
  line("size",
       fmt::format("{} in {} shard(s)", human_bytes(manifest.bytes()), manifest.shards.size()));
  line("loss", digest(manifest, "loss"));
  line("grad_norm", digest(manifest, "grad_norm"));
  line("state_crc", hex(manifest.state_crc));
  if (!manifest.tokenizer.empty()) line("tokenizer", manifest.tokenizer);
  line("data", manifest.data.dump());
  line("scalars", manifest.scalars.dump());
  line("layout", manifest.layout.dump());
  line("versions", manifest.versions.dump());
  fmt::print("\n{:8}  {:>9}  {:24}  tensor ({})\n", "crc32c", "dtype", "shape",
             manifest.tensors.size());
  for (const auto& tensor : manifest.tensors) {
    fmt::print("{:8}  {:>9}  {:24}  {}\n", hex(tensor.crc32c), name_of(tensor.dtype),
               say(tensor.shape), tensor.name);
  }
  return ExitCode::kDone;
}

ExitCode verify(const CheckpointOptions& options) {
  std::vector<Summary> summaries;
  if (checkpoint::is_checkpoint(options.path)) {
    summaries.push_back({0, options.path, std::nullopt, ""});
  } else {
    summaries = summaries_of(options.path);
  }
  std::size_t bad = 0;
  const int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  for (const Summary& summary : summaries) {
    const auto problems = checkpoint::problems_of(summary.folder, threads);
    fmt::print("{}: {}\n", summary.folder.string(), problems.empty() ? "good" : "DAMAGED");
    for (const std::string& problem : problems) fmt::print("  {}\n", problem);
    bad += problems.empty() ? 0 : 1;
  }
  if (bad == 0) return ExitCode::kDone;
  throw CheckpointError(say(bad, " of ", summaries.size(), " checkpoints damaged"));
}

ExitCode diff(const CheckpointOptions& options) {
  const fs::path a = checkpoint::newest_checkpoint(options.path);
  const fs::path b = checkpoint::newest_checkpoint(options.second);
  const auto differences = checkpoint::compare(a, b);
  fmt::print("{}\n{}\n", a.string(), b.string());
  for (const auto& difference : differences) {
    fmt::print("  {}: {}\n", difference.item, difference.detail);
  }
  if (differences.empty()) fmt::print("identical\n");
  return differences.empty() ? ExitCode::kDone : ExitCode::kCheckpoint;
}

ExitCode prune(const CheckpointOptions& options) {
  if (checkpoint::Store(options.path).list().empty()) {
    throw CheckpointError(say(options.path, " holds no checkpoint"));
  }
  const checkpoint::Lease lease(options.path);
  checkpoint::Store store(options.path, lease);
  for (const std::int64_t step : store.prune(options.retention)) {
    fmt::print("removed the checkpoint of step {}\n", step);
  }
  return ExitCode::kDone;
}

constexpr const char* kEither = "RUN_OR_CHECKPOINT";

CLI::App* add_list(CLI::App& to, CheckpointOptions& options) {
  CLI::App* app = to.add_subcommand("list", "List the checkpoints of a run, newest first");
  app->add_option("path", options.path, "A run folder (job.dump_folder), or one checkpoint")
      ->required()
      ->type_name(kEither);
  return app;
}

CLI::App* add_show(CLI::App& to, CheckpointOptions& options) {
  CLI::App* app =
      to.add_subcommand("show", "Show the step, digests, layout and tensors of a checkpoint");
  app->add_option("path", options.path, "A checkpoint, or a run folder (its newest checkpoint)")
      ->required()
      ->type_name(kEither);
  app->add_option("--tensor", options.tensor, "Show statistics of this tensor instead")
      ->type_name("NAME");
  return app;
}

CLI::App* add_verify(CLI::App& to, CheckpointOptions& options) {
  CLI::App* app = to.add_subcommand(
      "verify",
      "Read every byte and compare it with the checksums; fails if a checkpoint is damaged");
  app->add_option("path", options.path, "A checkpoint, or a run folder (all its checkpoints)")
      ->required()
      ->type_name(kEither);
  return app;
}

CLI::App* add_diff(CLI::App& to, CheckpointOptions& options) {
  CLI::App* app = to.add_subcommand(
      "diff", "Compare two checkpoints, whatever layouts wrote them; fails if they differ");
  app->add_option("first", options.path, "A checkpoint, or a run folder (its newest checkpoint)")
      ->required()
      ->type_name(kEither);
  app->add_option("second", options.second, "A checkpoint, or a run folder (its newest checkpoint)")
      ->required()
      ->type_name(kEither);
  return app;
}

CLI::App* add_prune(CLI::App& to, CheckpointOptions& options) {
  CLI::App* app =
      to.add_subcommand("prune", "Remove old checkpoints; the newest good ones are kept");
  app->add_option("path", options.path, "Run folder (job.dump_folder)")
      ->required()
      ->type_name("RUN_DIR");
  app->add_option("--keep-latest", options.retention.keep_latest,
                  "Number of newest good checkpoints to keep")
      ->required()
      ->check(CLI::Range(2, 1'000'000))
      ->type_name("K");
  app->add_option("--keep-every", options.retention.keep_every,
                  "Also keep checkpoints whose step is a multiple of N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40))
      ->type_name("N");
  return app;
}

}  // namespace

Command make_checkpoint(CLI::App& program) {
  auto options = std::make_shared<CheckpointOptions>();
  CLI::App* app = program.add_subcommand(
      "checkpoint", "List, inspect, verify, compare, prune, merge, export and import checkpoints");
  app->require_subcommand(1);
  CLI::App* listing = add_list(*app, *options);
  CLI::App* showing = add_show(*app, *options);
  CLI::App* verifying = add_verify(*app, *options);
  CLI::App* comparing = add_diff(*app, *options);
  add_prune(*app, *options);
  auto to_export = std::make_shared<ExportOptions>();
  CLI::App* exporting = add_checkpoint_export(*app, *to_export);
  auto to_import = std::make_shared<ImportOptions>();
  CLI::App* importing = add_checkpoint_import(*app, *to_import);
  auto to_merge = std::make_shared<MergeOptions>();
  CLI::App* merging = add_checkpoint_merge(*app, *to_merge);

  return {app, [=] {
            if (exporting->parsed()) return export_checkpoint(*to_export);
            if (importing->parsed()) return import_checkpoint(*to_import);
            if (merging->parsed()) return merge_checkpoints(*to_merge);
            if (listing->parsed()) return list(*options);
            if (showing->parsed()) return show_checkpoint(*options);
            if (verifying->parsed()) return verify(*options);
            if (comparing->parsed()) return diff(*options);
            return prune(*options);
          }};
}

}  // namespace trireme
