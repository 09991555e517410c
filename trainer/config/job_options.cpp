#include "trainer/config/option_table.h"

namespace trireme {

void add_job(Options& to) {
  to.push_back({.key = "job.dump_folder",
                .slot = TRIREME_MEMBER(job.dump_folder),
                .help = "run folder: config, metrics, events and checkpoints"});
  to.push_back({.key = "job.description",
                .slot = TRIREME_MEMBER(job.description),
                .help = "free text shown in logs and reports"});
  to.push_back({.key = "job.seed",
                .slot = TRIREME_MEMBER(job.seed),
                .help = "seed of the initial weights and of the data order",
                .effect = Effect::kData,
                .range = at_least(0)});
  to.push_back(
      {.key = "job.device",
       .slot = TRIREME_MEMBER(job.device),
       .help = "device to compute on; auto uses a GPU when the build and the machine have one",
       .effect = Effect::kLayout,
       .allowed = {"auto", "cpu", "cuda"}});
  to.push_back(
      {.key = "job.reproducible",
       .slot = TRIREME_MEMBER(job.reproducible),
       .help = "make loss, gradients and weights bit-identical for any number of data-parallel "
               "ranks and pipeline stages, any ZeRO stage and any bucket size",
       .effect = Effect::kNumerics});
  to.push_back(
      {.key = "job.threads",
       .slot = TRIREME_MEMBER(job.threads),
       .help =
           "CPU threads per rank; 0: all available cores, divided among the ranks of the machine",
       .effect = Effect::kPerformance,
       .range = between(0, 4096)});
  to.push_back(
      {.key = "job.cuda_graphs",
       .slot = TRIREME_MEMBER(job.cuda_graphs),
       .help =
           "capture forward and backward of a micro-batch in CUDA graphs and replay them; not with "
           "tensor parallelism",
       .effect = Effect::kPerformance});
}

}  // namespace trireme
