#include "trainer/config/option_table.h"

namespace trireme {

void add_job(Options& to) {
  to.push_back({.key = "job.dump_folder",
                .slot = TRIREME_MEMBER(job.dump_folder),
                .help = "the run folder: config, metrics, events, checkpoints"});
  to.push_back({.key = "job.description",
                .slot = TRIREME_MEMBER(job.description),
                .help = "a line for people, shown in logs and reports"});
  to.push_back({.key = "job.seed",
                .slot = TRIREME_MEMBER(job.seed),
                .help = "of the initial weights and the order of the data",
                .effect = Effect::kData,
                .range = at_least(0)});
  to.push_back(
      {.key = "job.device",
       .slot = TRIREME_MEMBER(job.device),
       .help = "where to compute; auto takes a GPU when the build and the machine have one",
       .effect = Effect::kLayout,
       .allowed = {"auto", "cpu", "cuda"}});
  to.push_back({.key = "job.reproducible",
                .slot = TRIREME_MEMBER(job.reproducible),
                .help = "bits that do not depend on data ranks, stages, zero or buckets either",
                .effect = Effect::kNumerics});
  to.push_back({.key = "job.threads",
                .slot = TRIREME_MEMBER(job.threads),
                .help = "threads of a rank; 0: every core the process may use",
                .effect = Effect::kPerformance,
                .range = between(0, 4096)});
  to.push_back({.key = "job.cuda_graphs",
                .slot = TRIREME_MEMBER(job.cuda_graphs),
                .help = "record forward and backward once and replay them, in runs of one GPU",
                .effect = Effect::kPerformance});
}

}  // namespace trireme
