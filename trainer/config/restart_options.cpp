#include "trainer/config/option_table.h"

namespace trireme {

void add_checkpoint(Options& to) {
  to.push_back({.key = "checkpoint.folder",
                .slot = TRIREME_MEMBER(checkpoint.folder),
                .help = "inside job.dump_folder unless absolute",
                .stays_relative = true});
  to.push_back({.key = "checkpoint.interval",
                .slot = TRIREME_MEMBER(checkpoint.interval),
                .help = "steps between checkpoints; 0: only at the end and on a signal",
                .range = between(0, 1e12),
                .unit = "steps"});
  to.push_back({.key = "checkpoint.keep_latest_k",
                .slot = TRIREME_MEMBER(checkpoint.keep_latest_k),
                .help = "older checkpoints are removed, two verified ones stay; 0: keep all",
                .range = between(0, 1e12)});
  to.push_back({.key = "checkpoint.keep_every",
                .slot = TRIREME_MEMBER(checkpoint.keep_every),
                .help = "never remove a step that is a multiple of this; 0: none",
                .range = between(0, 1e12),
                .unit = "steps"});
  to.push_back({.key = "checkpoint.async",
                .slot = TRIREME_MEMBER(checkpoint.async),
                .help = "write while training goes on, from a copy of the state in host memory",
                .effect = Effect::kPerformance});
  to.push_back({.key = "checkpoint.resume",
                .slot = TRIREME_MEMBER(checkpoint.resume),
                .help = "auto: from the newest good checkpoint, if any; none: refuse to continue",
                .allowed = {"auto", "none"},
                .or_step = true});
  to.push_back({.key = "checkpoint.initial_load_path",
                .slot = TRIREME_MEMBER(checkpoint.initial_load_path),
                .help = "a run folder or a checkpoint, of any layout, or the folder of a Hugging "
                        "Face model, whose weights a new run starts from; one that has "
                        "checkpoints goes on from them",
                .or_path = true});
  to.push_back({.key = "checkpoint.allow_changes",
                .slot = TRIREME_MEMBER(checkpoint.allow_changes),
                .help = "keys that may change numerics, or the data to come (data.stages), in a "
                        "run that goes on, as [\"optimizer.lr\"]; [\"all\"] also goes without the "
                        "self-check"});
}

void add_elastic(Options& to) {
  to.push_back({.key = "elastic.max_restarts",
                .slot = TRIREME_MEMBER(elastic.max_restarts),
                .help = "starts of trireme launch after failures, before it gives the run up",
                .range = between(0, 1e9)});
  to.push_back({.key = "elastic.restart_wait_s",
                .slot = TRIREME_MEMBER(elastic.restart_wait_s),
                .help = "before it restarts ranks that made no new step; six times as long the "
                        "second time, the third it gives up with exit code 93",
                .range = between(0, 86400),
                .unit = "seconds"});
  to.push_back({.key = "elastic.min_data_parallel",
                .slot = TRIREME_MEMBER(elastic.min_data_parallel),
                .help = "data ranks without which it does not go on when hosts are lost",
                .range = between(1, 1e6)});
  to.push_back({.key = "elastic.grow",
                .slot = TRIREME_MEMBER(elastic.grow),
                .help = "whether it goes on with more data ranks when hosts come back"});
  to.push_back({.key = "elastic.heartbeat_timeout_s",
                .slot = TRIREME_MEMBER(elastic.heartbeat_timeout_s),
                .help = "a rank without a sign of life for so long ends the run with exit code 7",
                .range = between(0.1, 86400),
                .unit = "seconds"});
  to.push_back({.key = "elastic.stall_timeout_s",
                .slot = TRIREME_MEMBER(elastic.stall_timeout_s),
                .help = "so does one that others wait for and that does not move; 0: never",
                .range = between(0, 8640000),
                .unit = "seconds"});
  to.push_back({.key = "elastic.load_save_timeout_s",
                .slot = TRIREME_MEMBER(elastic.load_save_timeout_s),
                .help = "the same while it starts, loads or saves, where that is longer",
                .range = between(0, 8640000),
                .unit = "seconds"});
  to.push_back({.key = "elastic.memory_interval",
                .slot = TRIREME_MEMBER(elastic.memory_interval),
                .help =
                    "steps between snapshots in the nodes' memory, from which a killed run goes "
                    "on; 0: none",
                .range = between(0, 1e12),
                .unit = "steps"});
  to.push_back({.key = "elastic.memory_folder",
                .slot = TRIREME_MEMBER(elastic.memory_folder),
                .help = "a file system in memory, on every node"});
  to.push_back({.key = "elastic.replica_check_interval",
                .slot = TRIREME_MEMBER(elastic.replica_check_interval),
                .help =
                    "steps between comparisons, bit for bit, of what several ranks hold, which are "
                    "made before each checkpoint, too; a rank that differs ends the run with exit "
                    "code 7; 0: none",
                .range = between(0, 1e12),
                .unit = "steps"});
  to.push_back({.key = "elastic.node_timeout_s",
                .slot = TRIREME_MEMBER(elastic.node_timeout_s),
                .help = "a node whose agent is silent for so long is lost to 'trireme launch'",
                .range = between(0.5, 86400),
                .unit = "seconds"});
  to.push_back({.key = "elastic.preflight",
                .slot = TRIREME_MEMBER(elastic.preflight),
                .help = "look at ranks, devices, links and folders before the run starts or goes "
                        "on"});
}

}  // namespace trireme
