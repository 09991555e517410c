#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "model/base/error.h"

namespace trireme {

struct ExportOptions {
  std::string model;      // run folder or checkpoint
  std::string output;     // the folder to make
  std::string dtype;      // empty: that of the run's weights
  std::string tokenizer;  // empty: the run's own
  std::string logits;     // where to write those of the check; empty: nowhere
  std::uint64_t shard_bytes = 5'000'000'000;
  std::uint64_t memory_bytes = 1'000'000'000;
  bool no_check = false;
};

CLI::App* add_checkpoint_export(CLI::App& checkpoint, ExportOptions& options);

// trireme checkpoint export: a checkpoint, whatever layout wrote it, as the folder of a Hugging
// Face model. The folder has its name only when it is whole and proved.
ExitCode export_checkpoint(const ExportOptions& options);

}  // namespace trireme
