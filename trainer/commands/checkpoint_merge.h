#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "model/base/error.h"

namespace trireme {

struct MergeOptions {
  std::vector<std::string> inputs;  // checkpoints or run folders
  std::vector<double> weights;      // one per checkpoint; empty: equal
  std::size_t last = 1;             // newest checkpoints of each run folder
  std::string output;               // a new run folder
};

CLI::App* add_checkpoint_merge(CLI::App& checkpoint, MergeOptions& options);

// trireme checkpoint merge: writes the weighted mean of checkpoints as the only checkpoint of a new
// run folder, with weights but without optimizer state, for eval, generate, export, diff, show and
// initial_load_path.
ExitCode merge_checkpoints(const MergeOptions& options);

}  // namespace trireme
