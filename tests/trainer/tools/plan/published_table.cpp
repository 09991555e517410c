// Predicted and published step times: published_table FILE [--fit | --explain]. The table is
// trainer/tools/plan/PUBLISHED.md; --fit prints the numbers that fit best, --explain the parts of
// the predicted steps of all sources but the unseen.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/trainer/tools/plan/first_errors.h"
#include "tests/trainer/tools/plan/fitting.h"
#include "tests/trainer/tools/plan/published_memory.h"
#include "tests/trainer/tools/plan/published_runs.h"

namespace trireme::published {
namespace {

constexpr const char* kPreface =
    R"(# Predicted and published step times

Written by `scripts/published > trainer/tools/plan/PUBLISHED.md`. The runs and their sources are in
`tests/trainer/tools/plan/published_runs.json`. The published time of a step is derived from the
figure that was published (step time, throughput or FLOP/s), with its publisher's FLOP convention.

**Every prediction below is of a source (a paper or repository) that nothing was fitted to**: the
numbers of the first table are fitted again without it (leave one source out). That is no test of the
model's terms, which were worked out with the errors of these sources in view. By now those of all:

* torchtitan (00ddf8ed) and SC21 (1688c6a3, of the program and cluster that Korthikanti et al. used a
  year later) were drawn by lot, the least SHA-256 of the names (`printf %s NAME | sha256sum`), before
  an earlier model was changed, and are never fitted to. torchtitan's errors (17.2 % in the median then)
  were in view when its recomputation per op, the clock of attention, the widths of heads in
  FlashAttention-2 and the sums around a ring were added, and when a second look at its tables found
  that its two runs of 405B have asynchronous tensor parallelism, which makes their errors larger.
* SimuMax's runs came to test `--gpu B200`. Their mean absolute error was 12.7 %. Seeing it, the energy
  of a Blackwell's FLOP in 16 bits and attention's share of it were taken from SimuMax's own table of
  single kernels (`single_kernels_test.cpp` has a part of it), and none of its steps. 12 runs of
  mixtures of experts are left out: their latent attention is not described here.
* Megatron Bridge and AutoModel (NVIDIA's performance summaries: of each model, device and format the
  newest release that has it) were transcribed when the model and all numbers had been committed. What
  came out then is on record under "First errors". Since then the record of the gradients of experts'
  biases was mended, which their errors had shown, and all of the above changed their predictions.
  Left out: Llama 3 8B on H100 (the table has FSDP, the recipe has not, and recomputes 5 of 32 layers),
  Qwen3 235B on H100 (its experts are divided over tensor ranks too), gpt-oss of AutoModel (table and
  recipe differ), and models and fine-tuning that are not described here.
* Nemotron-4 (0037b46f, with the 340B's configuration in NVIDIA's launcher) and OLMo (a5b1d834,
  OLMo-core's README) are a second draw, of eleven other names: Nemotron-4, OPT, MegaScale, TinyLlama,
  Colossal-AI, DBRX, GPT-NeoX, Levanter, OLMo, Falcon and BLOOM, in the order of their SHA-256. Of the
  names between them no two steps are published with all that determines them: OPT, TinyLlama, DBRX and
  GPT-NeoX have one figure each, Levanter's are of TPUs, MegaScale names neither GPU nor recomputation,
  the network of one of Colossal-AI's two runs is not stated. OLMo's table does not say how many GPUs: 8,
  by the default of the command that it gives. Model, numbers and rows were committed before any of
  their errors was computed.
  What came out then is on record under "First errors": 21.7 and 18.3 % in the median. With these errors
  in view the sources of the programs were searched for what was not counted, so that the errors of
  today are no test of it: the copies between FSDP's buffers and tensors and the messages that its root
  waits for, torchao's kernels that quantize and transpose, OLMo-core's loss, NCCL's second protocol and
  what its trees reach, and sizes of buckets. Each is counted for all sources whose program has it:
  AutoModel's errors, SimuMax's largest, and the median of Nemotron-4 became larger.
* fms-fsdp (030b3303) and LitGPT (4fe7487f) are a third draw, and **the test that this model passed as it
  was**: neither a number nor a price of the planner changed between the lot and the first errors, which
  are on record (3.3 % in the median, 11.5 % at the 90th percentile, 16.1 % at the worst of 15 runs). The
  lot had fifteen other names: Picotron, fms-fsdp, Apertus, ROCm, Yuan 1.0, MaxText on GPUs, LitGPT,
  Skywork, GLM-130B, Megatron-DeepSpeed, K2, MT-NLG, JAX-Toolbox, InternEvo and StarCoder, in the order of
  their SHA-256. Picotron has two figures without layouts, Apertus GH200, ROCm its numbers in pictures,
  Yuan 1.0 one figure; MaxText's table is headed "expected" and says nothing of what XLA gathers in which
  format. How each program's kernels follow from its source was written down with the rows, before
  their errors. Left out before any was computed: of fms-fsdp runs that recompute some of the blocks (how
  many is not said) and compiled ones on H100s, of which two texts name different clusters; of LitGPT runs of
  which one of many micro-batches is timed, maybe while the host is ahead of the device, and those of Thunder,
  whose kernels are not described. After the first errors it was seen that LitGPT's loss is in float32:
  its predictions of today are those of that.
* nanotron's passes that only change layouts or add residuals, those over gradients, loss and update,
  the copies of its DistributedDataParallel and the slices that its host copies one by one were looked
  for in its source because some of its steps took longer than predicted. All that were found are
  counted, also where they make errors larger (1.34B on 32 GPUs). By them the 90th percentile of the
  sources that are fitted to fell from 17.6 % to just below 15 %.

The watts of an idle device, which do not fall with the clock (80 of an A100, 122 of an H100, 192 of a
B200), are published measurements of single devices (device_table.cpp), not fitted.

What is known of each trainer (what it overlaps, fuses and recomputes, which attention it has) is in
`tests/trainer/tools/plan/published_traits.cpp`, each from the source itself at the time of the runs.
A micro-batch or a number of virtual stages that is not published is the fastest of those that fit,
both by the planner. Other constants are published measurements of single kernels: matrix products
of A100, H100, B200, B300 and GB200 by github.com/stas00/ml-engineering, attention on H100 in figures 5 and 6 of
Shah et al. 2024, on A100 in Dao 2023, energy on Blackwell by github.com/MooreThreads/SimuMax.

)";

constexpr const char* kLimits = R"(
What limits the predictions:

* Nemotron-4 15B is predicted to take 23 to 41 % longer than it did on 96 to 288 data ranks. Its program
  is not published. NVIDIA's configuration of the same month has half its tensor ranks, and reduces
  float32 in buckets of 100 MB, each of which pays the latency of a ring over all nodes. With these the
  step grows by 26 % from 96 to 288 data ranks, the published by 12 %. Buckets of several times that
  size, as Megatron-LM has since two months after the paper, would make the errors less.
* OLMo's 13B with one sequence per micro-batch takes 11 and 22 % longer than predicted (in 16 and 8
  bits), its others 2 % less to 7 % more.
* AutoModel's steps take 12 and 16 % less than predicted.
* fms-fsdp's 13B and 7B with replicas take up to 14 % less than predicted. There shards are summed over
  nodes on a stream of its own while the node reduces the next block; here one follows the other.
* torchtitan's steps of 131,072 and 262,144 tokens over 4 and 8 context ranks take 1.6 and 1.7 times as
  long as predicted, its others 8 % less to 18 % longer. A device has one clock for all kernels of a step, here
  attention has its own, which is higher than that of matmuls.
* SimuMax: the more micro-batches a step has the slower a B200 becomes, which no clock here does.
* Megatron Bridge's dense models take 10 % more to 21 % less than predicted, the less on GB300: with a
  limit of 1400 W it seems to need less energy per FLOP in 8 bits than a Hopper, by which it is
  predicted, and in 16 bits than a B200.
* Its mixtures of experts change by a third and more between releases of the same program. Rows for
  experts of other nodes are sent once per choice here, by its dispatcher once per node (Qwen3 30B on
  16 H100). gpt-oss takes up to 1.45 times as long as predicted.
* nanotron's 80B on 32 GPUs takes 2.7 times as long as predicted, and per token twice as long as on
  64: nothing published explains it. On 64 GPUs with one replica it takes longer per micro-batch
  than with four.
* nanotron's 1.34B on 32 GPUs takes less time than predicted, unlike its larger models: by its own rule
  11 of 16 layers are in the first stage.
* llm-foundry's steps with 8 and 32 GPUs whose memory is full (30B with 8192 tokens, 70B) are slower
  than those of the same model on more GPUs; its allocator is not modelled.
* LLM.Q's kernels are faster than those of programs in PyTorch, by which most numbers are fitted. So
  are this trainer's: its steps on an H100 (scripts/speed/RESULTS.md) were predicted to take 9 to 14 %
  longer than they do by the numbers before these. A further number for programs in Python did not make other sources' errors
  less.
* The A100's llm.c run has matrices 768 wide, for which one half depth is not enough.
)";

constexpr const char* kFirstErrors = R"(
## First errors of {}, as of {} (commit {})

History: nothing below is computed again. These errors are as they were first computed, when the
model and all numbers had been committed before the rows were transcribed, and the rows before any
of their errors was computed.

)";

constexpr const char* kMemory = R"(
Memory of a rank in GiB: published, and what this trainer's arenas hold in the same run. The rest is
what the programs do differently. Korthikanti et al. store attention scores where nothing is
recomputed (5 a s^2 b bytes a layer of a heads, s tokens and b sequences, over the tensor ranks),
and masks of dropout; this trainer's attention keeps neither. Their state is that of 1/p of the
parameters; here it is that of the first stage, which has the embedding as well. nanotron and
torchtitan report what PyTorch's allocator took from the device at most, with what it keeps for
later; in addition logits and their gradients are whole and in float32, where this trainer has
chunks, outputs of unfused activations are kept, and nanotron has gradients in 16 bits as well as in
float32. torchtitan's sequences of 65,536 tokens and more keep whole logits in float32: 31 GiB.
SimuMax reports what its tensors took.

)";

double share_of(const std::vector<double>& errors, double share) {
  std::vector<double> sizes;
  for (const double error : errors) sizes.push_back(std::abs(error));
  return percentile(std::move(sizes), share);
}

std::string layout_of(const Workload& w) {
  std::string text = fmt::format("tp{}", w.mesh.tensor);
  if (w.mesh.pipeline > 1) text += fmt::format(" pp{}", w.mesh.pipeline);
  if (w.spec.parallelism.virtual_stages > 1)
    text += fmt::format(" v{}", w.spec.parallelism.virtual_stages);
  if (w.mesh.context > 1) text += fmt::format(" cp{}", w.mesh.context);
  text += fmt::format(" dp{}", w.mesh.data_shard * w.mesh.data_replicate);
  if (w.mesh.data_replicate > 1) text += fmt::format(" in {} replicas", w.mesh.data_replicate);
  if (w.mesh.expert > 1) text += fmt::format(" ep{}", w.mesh.expert);
  if (w.spec.parallelism.zero > 1) text += fmt::format(" zero{}", w.spec.parallelism.zero);
  return text + fmt::format(", {} x {} x {}", w.spec.micro_batches,
                            w.spec.training.local_batch_size, w.spec.training.seq_len);
}

NumberFormat numbers_of(const Run& run) {
  const NumberFormat numbers = run.work.numbers();
  return numbers == NumberFormat::kFloat8 ? run.narrow : numbers;
}

void print_parameters() {
  fmt::print("| fitted | meaning | possible | expected | value |\n|---|---|--:|--:|--:|\n");
  for (const Parameter& p : parameters()) {
    fmt::print("| {} | {} | {:.3g} to {:.3g} | {:.3g} +- {:.0f} % | {:.3g} |\n", p.name, p.meaning,
               p.least, p.most, p.expected, 100 * p.width, fitted().*p.value);
  }
}

void print_summary(const char* name, const std::vector<double>& errors) {
  fmt::print("| {} | {} | {:.1f} % | {:.1f} % | {:.1f} % |\n", name, errors.size(),
             100 * share_of(errors, 0.5), 100 * share_of(errors, 0.9), 100 * share_of(errors, 1));
}

void print_sources(const std::vector<LeftOut>& all) {
  fmt::print(
      "\n| source left out | runs | median | 90th percentile | worst |\n|---|--:|--:|--:|--:|\n");
  for (const LeftOut& left : all) {
    const std::string why = left.source.draw > 0
                                ? fmt::format(" (draw {}, never fitted to)", left.source.draw)
                            : left.source.is_later ? " (never fitted to)"
                                                   : "";
    print_summary((left.source.name + why).c_str(), left.errors);
  }
  print_summary("**those that are fitted to when they are not left out**",
                errors_of(all, [](const Source& one) { return !one.is_unseen(); }));
  print_summary("**both of the first draw**",
                errors_of(all, [](const Source& one) { return one.draw == 1; }));
  print_summary("**both of the second draw**",
                errors_of(all, [](const Source& one) { return one.draw == 2; }));
  print_summary("**both of the third draw**",
                errors_of(all, [](const Source& one) { return one.draw == 3; }));
  print_summary("**all but those that came later**",
                errors_of(all, [](const Source& one) { return !one.is_later; }));
  print_summary("**all**", errors_of(all, [](const Source&) { return true; }));
  const std::vector<double> of_b200 =
      errors_of(all, [](const Source& one) { return one.name == "SimuMax"; });
  double sum = 0;
  for (const double error : of_b200) sum += std::abs(error);
  fmt::print("\nThe mean absolute error of SimuMax is {:.1f} %.\n",
             100 * sum / static_cast<double>(of_b200.size()));
  const TimeBand band = band_of(all);
  fmt::print(
      "\nNine of ten of all but those that came later take {:.2f} to {:.2f} times what is\n"
      "predicted: the band that `trireme plan` prints for devices by data sheet.\n",
      band.least, band.most);
}

void print_runs(const std::vector<Run>& runs, const std::vector<LeftOut>& all) {
  fmt::print(
      "\n| # | source | model | GPU | format | layout, micro-batches x sequences x tokens | "
      "published "
      "s | predicted s | error |\n|--:|---|---|---|---|---|--:|--:|--:|\n");
  for (const Run& run : runs) {
    const LeftOut& left = *std::find_if(
        all.begin(), all.end(), [&](const LeftOut& one) { return one.source.name == run.group; });
    const double predicted = seconds(run, left.fitted, profiles_of(left.fitted));
    fmt::print("| {} | {} | {} | {} | {} | {} | {:.3g} | {:.3g} | {:+.1f} %{} |\n", run.number,
               run.group, run.model, run.gpu, name_of(numbers_of(run)), layout_of(run.work),
               run.measured, predicted, 100 * (predicted / run.measured - 1),
               run.reason.empty() ? "" : ", not modelled: " + run.reason);
  }
}

void print_first_errors(const FirstErrors& first) {
  fmt::print(kFirstErrors, first.of, first.date, first.commit);
  std::vector<double> errors;
  for (const FirstError& row : first.rows) errors.push_back(row.error);
  fmt::print(
      "Of {} rows the median was {:.1f} %, the 90th percentile {:.1f} %, the worst {:.1f} %.\n\n",
      errors.size(), 100 * share_of(errors, 0.5), 100 * share_of(errors, 0.9),
      100 * share_of(errors, 1));
  fmt::print(
      "| # | source | model | GPU | format | layout | published s | predicted s then | first error "
      "|\n|--:|---|---|---|---|---|--:|--:|--:|\n");
  for (const FirstError& row : first.rows) {
    fmt::print("| {} | {} | {} | {} | {} | {} | {:.3g} | {:.3g} | {:+.1f} % |\n", row.number,
               row.source, row.model, row.gpu, row.format, row.layout, row.published, row.predicted,
               100 * row.error);
  }
}

void print_memory(const std::vector<Run>& runs) {
  fmt::print(
      "{}| # | model | memory | published | planned | difference |\n|--:|---|---|--:|--:|--:|\n",
      kMemory);
  for (const Memory& memory : published_memory(runs)) {
    fmt::print("| {} | {} | {} | {:.2f} | {:.2f} | {:+.1f} % |\n", memory.run->number,
               memory.run->model, memory.what, memory.published, memory.planned,
               100 * (memory.planned / memory.published - 1));
  }
}

void explain(const Run& run, const Profiles& profiles) {
  const TimeParts p = estimate(run, profiles).parts;
  fmt::print("{:2} {:14} {:+6.1f}% {:.3f}s:", run.number, run.model,
             100 * (seconds(run, fitted(), profiles) / run.measured - 1), run.measured);
  for (const TimePart& part : kTimeParts) fmt::print(" {} {:.3f}", part.name, p.*part.seconds);
  fmt::print("\n");
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
  if (argc > 2 && std::strcmp(argv[2], "--fit") == 0) {
    const Fitted found = fit(runs);
    for (const Parameter& p : parameters()) fmt::print("{}: {:.4g}\n", p.name, found.*p.value);
    return 0;
  }
  if (argc > 2 && std::strcmp(argv[2], "--explain") == 0) {
    const Profiles profiles = profiles_of(fitted());
    for (const Run& run : runs) {
      if (run.reason.empty() && !is_unseen(run.group)) explain(run, profiles);
    }
    return 0;
  }
  const std::vector<LeftOut> all = leave_one_out(runs);
  fmt::print("{}", kPreface);
  print_parameters();
  print_sources(all);
  fmt::print("{}", kLimits);
  print_runs(runs, all);
  for (const FirstErrors& first : read_first_errors(TRIREME_FIRST_ERRORS)) {
    print_first_errors(first);
  }
  print_memory(runs);
  return 0;
}
