#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

#include "trainer/convert/huggingface/weight_export.h"
#include "trainer/loop/trained_model.h"

namespace trireme {

struct ExportCheck {
  const TrainedModel& source;      // one checkpoint
  std::filesystem::path exported;  // complete folder
  DType dtype;
  std::uint64_t memory_bytes = 0;
  std::filesystem::path logits;  // output file; empty: none
};

// Additional memory for computing the logits of a model.
std::uint64_t memory_of_logits(const ModelConfig& model);

// Reads the export back: config.json must describe the source model, every weight must be
// bit-identical to the rounded weight of the source and, if the model fits into the memory, so must
// float32 logits of fixed tokens. Returns a summary line. Throws CheckpointError if anything
// differs.
std::string check_export(const ExportCheck& check, WeightExport& weights);

}  // namespace trireme
