// Predicted beside published step times: published_table FILE [--fit]. The table is
// trainer/tools/plan/PUBLISHED.md; --fit looks for better efficiencies and prints them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>

#include "tests/trainer/tools/plan/fitting.h"
#include "tests/trainer/tools/plan/published_memory.h"
#include "tests/trainer/tools/plan/published_runs.h"

namespace trireme::published {
namespace {

constexpr const char* kPreface = R"(# Predicted and published step times

Written by `scripts/published > trainer/tools/plan/PUBLISHED.md`. The runs and their sources are in
`tests/trainer/tools/plan/published_runs.json`. The published time of a step is derived from the
figure that was published (step time, throughput or FLOP/s), with its publisher's FLOP convention.

Each GPU type has one set of efficiencies per number format (`trainer/tools/plan/device_table.cpp`).
`scripts/published --fit` fits it to every second run of that type and format, in the order of the
file; the other runs, and a run that is the only one of its type and format, test it. Nothing is
fitted to a single run. What is known of each trainer (which communication it overlaps, what it
fuses, which attention it uses) is in `tests/trainer/tools/plan/published_runs.cpp` and was not
fitted. Where the micro-batch size is not published, it is assumed to be one sequence (for
torchtitan: as many micro-batches as stages); where virtual stages are not, one layer each.

Largest errors: LLM.Q's steps on H100 are faster than those of the other trainers there, which one
efficiency per GPU type cannot express (+20 %). nanotron's 80B on 32 GPUs takes 2.6 times as long as
predicted, and twice as long per token as the same model on 64 GPUs; nothing published explains it.
nanotron's 1.34B on 512 GPUs has only one micro-batch per step. `--gpu H200`
has the efficiencies of this program's kernels, measured on one; here it has the H100's.

)";

std::string layout_of(const Workload& w) {
  std::string text = fmt::format("tp{}", w.mesh.tensor);
  if (w.mesh.pipeline > 1) text += fmt::format(" pp{}", w.mesh.pipeline);
  if (w.spec.parallelism.virtual_stages > 1)
    text += fmt::format(" v{}", w.spec.parallelism.virtual_stages);
  if (w.mesh.context > 1) text += fmt::format(" cp{}", w.mesh.context);
  text += fmt::format(" dp{}", w.mesh.data_shard);
  if (w.spec.parallelism.zero > 1) text += fmt::format(" zero{}", w.spec.parallelism.zero);
  return text + fmt::format(", {} x {} x {}", w.spec.micro_batches,
                            w.spec.training.local_batch_size, w.spec.training.seq_len);
}

void print_table(const std::vector<Run>& runs, const Profiles& profiles) {
  fmt::print("{}", kPreface);
  fmt::print(
      "| # | model | GPU | format | layout, micro-batches x sequences x tokens | used for | "
      "published s | predicted s | error |\n|--:|---|---|---|---|---|--:|--:|--:|\n");
  std::map<std::string, std::vector<double>> errors;
  for (const Run& run : runs) {
    const std::string numbers = name_of(run.work.numbers());
    const double seconds = estimate(run, profiles.at(run.gpu)).seconds;
    const double off = seconds / run.measured - 1;
    const std::string use = !run.reason.empty() ? "not modeled: " + run.reason
                            : run.fitted        ? "fitted"
                                                : "tested";
    fmt::print("| {} | {} | {} | {} | {} | {} | {:.3f} | {:.3f} | {:+.1f} % |\n", run.number,
               run.model, run.gpu, numbers, layout_of(run.work), use, run.measured, seconds,
               100 * off);
    if (!run.reason.empty()) continue;
    for (const std::string& group : {std::string("all"), run.gpu + ", " + numbers}) {
      errors[group + ", " + use].push_back(std::abs(off));
    }
  }
  fmt::print("\n| runs | count | median | 90th percentile | worst |\n|---|--:|--:|--:|--:|\n");
  for (const auto& [group, all] : errors) {
    fmt::print("| {} | {} | {:.1f} % | {:.1f} % | {:.1f} % |\n", group, all.size(),
               100 * median(all), 100 * percentile(all, 0.9), 100 * percentile(all, 1));
  }
}

void print_memory(const std::vector<Run>& runs) {
  fmt::print(
      "\n| model | memory per GPU | published GiB | predicted GiB | error |\n"
      "|---|---|--:|--:|--:|\n");
  for (const Memory& memory : korthikanti_memory(runs)) {
    fmt::print("| {} | {} | {:.2f} | {:.2f} | {:+.1f} % |\n", memory.model, memory.what,
               memory.published, memory.counted, 100 * (memory.counted / memory.published - 1));
  }
}

void explain(const Run& run, const DeviceProfile& device) {
  const StepEstimate e = estimate(run, device);
  const TimeParts& p = e.parts;
  fmt::print(
      "{:2} {:14} {:+6.1f}% {:.3f}s: products {:.3f} attention {:.3f} streams {:.3f} messages "
      "{:.3f} "
      "bubble {:.3f} gradients {:.3f} optimizer {:.3f}{}\n",
      run.number, run.model, 100 * (e.seconds / run.measured - 1), run.measured, p.products,
      p.attention, p.streams, p.messages, p.bubble, p.gradients, p.optimizer,
      run.fitted ? " F" : "");
}

}  // namespace
}  // namespace trireme::published

int main(int argc, char** argv) {
  using namespace trireme::published;
  if (argc < 2) {
    fmt::print(stderr, "usage: published_table FILE [--fit | --explain]\n");
    return 2;
  }
  const std::vector<Run> runs = read(argv[1]);
  Profiles profiles = listed_by_name();
  if (argc > 2 && std::strcmp(argv[2], "--fit") == 0) {
    fit(runs, profiles);
    for (const auto& [name, profile] : profiles) fmt::print("{}\n", text_of(profile));
  }
  if (argc > 2 && std::strcmp(argv[2], "--explain") == 0) {
    for (const Run& run : runs) {
      if (run.reason.empty()) explain(run, profiles.at(run.gpu));
    }
    return 0;
  }
  print_table(runs, profiles);
  print_memory(runs);
  return 0;
}
