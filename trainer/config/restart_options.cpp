#include "trainer/config/option_table.h"

namespace trireme {

void add_checkpoint(Options& to) {
  to.push_back({.key = "checkpoint.folder",
                .slot = TRIREME_MEMBER(checkpoint.folder),
                .help = "folder of the checkpoints, inside job.dump_folder unless absolute",
                .stays_relative = true});
  to.push_back({.key = "checkpoint.interval",
                .slot = TRIREME_MEMBER(checkpoint.interval),
                .help = "steps between checkpoints; 0: only at the end and on a signal",
                .range = between(0, 1e12),
                .unit = "steps"});
  to.push_back(
      {.key = "checkpoint.keep_latest_k",
       .slot = TRIREME_MEMBER(checkpoint.keep_latest_k),
       .help = "number of newest checkpoints to keep (two verified ones always stay); 0: keep all",
       .range = between(0, 1e12)});
  to.push_back({.key = "checkpoint.keep_every",
                .slot = TRIREME_MEMBER(checkpoint.keep_every),
                .help = "also keep every checkpoint whose step is a multiple of this; 0: none",
                .range = between(0, 1e12),
                .unit = "steps"});
  to.push_back({.key = "checkpoint.async",
                .slot = TRIREME_MEMBER(checkpoint.async),
                .help = "write checkpoints asynchronously, from a copy of the state in host memory",
                .effect = Effect::kPerformance});
  to.push_back({.key = "checkpoint.resume",
                .slot = TRIREME_MEMBER(checkpoint.resume),
                .help = "auto: resume from the newest good checkpoint, if any; none: refuse a run "
                        "folder with checkpoints; a number: resume from that step",
                .allowed = {"auto", "none"},
                .or_step = true});
  to.push_back({.key = "checkpoint.initial_load_path",
                .slot = TRIREME_MEMBER(checkpoint.initial_load_path),
                .help = "initial weights of a new run: a run folder or checkpoint of any layout, "
                        "also of a dense model for one with experts, or a Hugging Face model "
                        "folder; ignored once the run has checkpoints",
                .or_path = true});
  to.push_back({.key = "checkpoint.upcycle_noise",
                .slot = TRIREME_MEMBER(checkpoint.upcycle_noise),
                .help = "sparse upcycling, when initial_load_path is a dense model: normal noise "
                        "added to the copied expert weights, relative to their initialization's "
                        "standard deviation; 0: exact copies",
                .range = between(0, 1e3)});
  to.push_back(
      {.key = "checkpoint.allow_changes",
       .slot = TRIREME_MEMBER(checkpoint.allow_changes),
       .help = "keys that may change on resume although they change numerics (or data.stages), as "
               "[\"optimizer.lr\"]; [\"all\"] allows all of them and disables the self-check"});
}

namespace {

void add_restarts(Options& to) {
  to.push_back({.key = "elastic.max_restarts",
                .slot = TRIREME_MEMBER(elastic.max_restarts),
                .help = "maximum number of automatic restarts by trireme launch",
                .range = between(0, 1e9)});
  to.push_back({.key = "elastic.restart_wait_s",
                .slot = TRIREME_MEMBER(elastic.restart_wait_s),
                .help = "wait before a restart after a start that made no new step; six times as "
                        "long after the second in a row; the third ends the run with exit code 93",
                .range = between(0, 86400),
                .unit = "seconds"});
  to.push_back(
      {.key = "elastic.min_data_parallel",
       .slot = TRIREME_MEMBER(elastic.min_data_parallel),
       .help = "minimum number of data-parallel ranks to continue with when nodes are lost",
       .range = between(1, 1e6)});
  to.push_back({.key = "elastic.grow",
                .slot = TRIREME_MEMBER(elastic.grow),
                .help = "restore the number of data-parallel ranks when nodes return"});
}

void add_failure_detection(Options& to) {
  to.push_back({.key = "elastic.heartbeat_timeout_s",
                .slot = TRIREME_MEMBER(elastic.heartbeat_timeout_s),
                .help = "abort (exit code 7) when a rank sends no heartbeat for this long",
                .range = between(0.1, 86400),
                .unit = "seconds"});
  to.push_back({.key = "elastic.stall_timeout_s",
                .slot = TRIREME_MEMBER(elastic.stall_timeout_s),
                .help = "abort (exit code 7) when a rank that others wait for makes no progress "
                        "for this long; 0: never",
                .range = between(0, 8640000),
                .unit = "seconds"});
  to.push_back(
      {.key = "elastic.load_save_timeout_s",
       .slot = TRIREME_MEMBER(elastic.load_save_timeout_s),
       .help = "stall timeout while a rank starts, loads or saves, if longer than stall_timeout_s",
       .range = between(0, 8640000),
       .unit = "seconds"});
}

void add_memory_snapshots(Options& to) {
  to.push_back({.key = "elastic.memory_interval",
                .slot = TRIREME_MEMBER(elastic.memory_interval),
                .help = "steps between snapshots in the memory of the nodes, from which a failed "
                        "run restarts; 0: none",
                .range = between(0, 1e12),
                .unit = "steps"});
  to.push_back(
      {.key = "elastic.memory_folder",
       .slot = TRIREME_MEMBER(elastic.memory_folder),
       .help = "folder of the in-memory snapshots on every node, on an in-memory file system"});
}

void add_checks(Options& to) {
  to.push_back(
      {.key = "elastic.replica_check_interval",
       .slot = TRIREME_MEMBER(elastic.replica_check_interval),
       .help = "steps between bit-for-bit comparisons of replicated state (also made before each "
               "checkpoint); a rank that differs ends the run with exit code 7; 0: none",
       .range = between(0, 1e12),
       .unit = "steps"});
  to.push_back({.key = "elastic.node_timeout_s",
                .slot = TRIREME_MEMBER(elastic.node_timeout_s),
                .help = "trireme launch: a node whose agent is silent for this long counts as lost",
                .range = between(0.5, 86400),
                .unit = "seconds"});
  to.push_back(
      {.key = "elastic.preflight",
       .slot = TRIREME_MEMBER(elastic.preflight),
       .help = "check ranks, devices, links and folders before the run starts or resumes"});
}

}  // namespace

void add_elastic(Options& to) {
  add_restarts(to);
  add_failure_detection(to);
  add_memory_snapshots(to);
  add_checks(to);
}

}  // namespace trireme
