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

Written by `scripts/published > trainer/tools/plan/PUBLISHED.md`. The runs are those of
`tests/trainer/tools/plan/published_runs.json`, each with its source. Published seconds are of a step,
from whatever figure was published, by the FLOP convention of its publisher.

Each kind of GPU has one set of efficiencies for each number format
(`trainer/tools/plan/device_table.cpp`), fitted by `scripts/published --fit` on every second run of
that kind and format in the file's order. The other half tests; a run that is alone in its kind
tests too. No run has a number of its own. What is known of the programs (which messages they
hide, what they fuse, whose attention they use) is in `tests/trainer/tools/plan/published_runs.cpp` and
was not fitted. Where the micro-batch is not published it is taken as one sequence, for torchtitan
as many micro-batches as stages; where the virtual stages are not, as one layer each.

What is off most: LLM.Q's steps on H100 are faster than any other program's there, which one
efficiency cannot tell (+20 %); nanotron's 80B on 32 GPUs takes 2.6 times as long as predicted, and
twice as long for a token as the same model on 64, which nothing published explains; its 1.34B on
512 GPUs has one micro-batch a step.

)";

std::string layout_of(const Workload& w) {
  std::string text = fmt::format("tp{}", w.mesh.tensor);
  if (w.mesh.pipeline > 1) text += fmt::format(" pp{}", w.mesh.pipeline);
  if (w.virtual_stages > 1) text += fmt::format(" v{}", w.virtual_stages);
  if (w.mesh.context > 1) text += fmt::format(" cp{}", w.mesh.context);
  text += fmt::format(" dp{}", w.mesh.data_shard);
  if (w.zero > 1) text += fmt::format(" zero{}", w.zero);
  return text + fmt::format(", {} x {} x {}", w.micro_batches, w.micro_batch, w.seq_len);
}

void print_table(const std::vector<Run>& runs, const Profiles& profiles) {
  fmt::print("{}", kPreface);
  fmt::print(
      "| # | model | GPU | numbers | layout, micro-batches x sequences x tokens | half | "
      "published s | predicted s | error |\n|--:|---|---|---|---|---|--:|--:|--:|\n");
  std::map<std::string, std::vector<double>> errors;
  for (const Run& run : runs) {
    const std::string numbers = name_of(run.work.numbers);
    const double seconds = estimate_step(run.work, profiles.at(run.gpu)).seconds;
    const double off = seconds / run.measured - 1;
    const std::string half = !run.reason.empty() ? "not modelled: " + run.reason
                             : run.fitted        ? "fitted"
                                                 : "tested";
    fmt::print("| {} | {} | {} | {} | {} | {} | {:.3f} | {:.3f} | {:+.1f} % |\n", run.number,
               run.model, run.gpu, numbers, layout_of(run.work), half, run.measured, seconds,
               100 * off);
    if (!run.reason.empty()) continue;
    for (const std::string& group : {std::string("all"), run.gpu + ", " + numbers}) {
      errors[group + ", " + half].push_back(std::abs(off));
    }
  }
  fmt::print("\n| runs | number | median | 90th percentile | worst |\n|---|--:|--:|--:|--:|\n");
  for (const auto& [group, all] : errors) {
    fmt::print("| {} | {} | {:.1f} % | {:.1f} % | {:.1f} % |\n", group, all.size(),
               100 * median(all), 100 * percentile(all, 0.9), 100 * percentile(all, 1));
  }
}

void print_memory(const std::vector<Run>& runs) {
  fmt::print(
      "\n| model | memory of a GPU | published GiB | counted GiB | error |\n"
      "|---|---|--:|--:|--:|\n");
  for (const Memory& memory : korthikanti_memory(runs)) {
    fmt::print("| {} | {} | {:.2f} | {:.2f} | {:+.1f} % |\n", memory.model, memory.what,
               memory.published, memory.counted, 100 * (memory.counted / memory.published - 1));
  }
}

void explain(const Run& run, const DeviceProfile& device) {
  const StepEstimate e = estimate_step(run.work, device);
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
