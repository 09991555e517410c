#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

#include "trainer/convert/huggingface/weight_export.h"
#include "trainer/loop/trained_model.h"

namespace trireme {

struct ExportCheck {
  const TrainedModel& source;      // of one checkpoint
  std::filesystem::path exported;  // a whole folder
  DType dtype;
  std::uint64_t memory_bytes = 0;
  std::filesystem::path logits;  // a file to write; empty: none
};

// Bytes that computing the logits of such a model takes beside the program's own.
std::uint64_t memory_of_logits(const ModelConfig& model);

// Reads the export back as a model of its own: its config.json must give the source's model, each
// weight must be the source's to the bit once that is rounded, and so, where the model fits into
// the memory, must the logits of some fixed tokens, computed in float32. Returns a line about what
// was found; throws CheckpointError where anything differs.
std::string check_export(const ExportCheck& check, WeightExport& weights);

}  // namespace trireme
