#pragma once
#include <CLI/CLI.hpp>
#include <string>

#include "model/base/error.h"

namespace trireme {

struct ImportOptions {
  std::string model;   // Hugging Face model folder
  std::string output;  // a new run folder
};

CLI::App* add_checkpoint_import(CLI::App& checkpoint, ImportOptions& options);

// trireme checkpoint import: writes a Hugging Face model as checkpoint of step 0 in a new run
// folder, with weights but without optimizer state, for eval, generate, diff, show and
// initial_load_path.
ExitCode import_checkpoint(const ImportOptions& options);

}  // namespace trireme
