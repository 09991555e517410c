#pragma once
#include <CLI/CLI.hpp>
#include <string>

#include "model/base/error.h"

namespace trireme {

struct ImportOptions {
  std::string model;   // the folder of a Hugging Face model
  std::string output;  // a new run folder
};

CLI::App* add_checkpoint_import(CLI::App& checkpoint, ImportOptions& options);

// trireme checkpoint import: a Hugging Face model as the checkpoint of step 0 of a new folder, with
// weights and no optimizer state: for eval, generate, diff and show, and for runs that start from
// it.
ExitCode import_checkpoint(const ImportOptions& options);

}  // namespace trireme
