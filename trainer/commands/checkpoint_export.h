#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "model/base/error.h"

namespace trireme {

struct ExportOptions {
  std::string model;      // run folder or checkpoint
  std::string output;     // folder to create
  std::string dtype;      // empty: dtype of the run's weights
  std::string tokenizer;  // empty: the run's tokenizer
  std::string logits;     // file for the logits of the check; empty: none
  std::uint64_t shard_bytes = 5'000'000'000;
  std::uint64_t memory_bytes = 1'000'000'000;
  bool no_check = false;
  bool ema = false;  // the average of the weights
};

CLI::App* add_checkpoint_export(CLI::App& checkpoint, ExportOptions& options);

// trireme checkpoint export: writes a checkpoint of any layout as a Hugging Face model folder. The
// folder gets its final name only after it is complete and checked.
ExitCode export_checkpoint(const ExportOptions& options);

}  // namespace trireme
