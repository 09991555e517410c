#pragma once
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/format/piece.h"
#include "checkpoint/huggingface/model_folder.h"
#include "trainer/convert/huggingface/tensor_names.h"

namespace trireme {

// Weights of a Hugging Face model folder by the names of this trainer. Each rank opens the folder
// itself and reads only the boxes it requests.
class ForeignWeights {
 public:
  // Throws CheckpointError with all tensors that are missing, unexpected or of another shape.
  ForeignWeights(const std::filesystem::path& folder, const ModelConfig& model);

  // Fills boxes of float32 tensors "model/NAME".
  void fill(std::span<const checkpoint::Piece> wanted) const;

 private:
  struct Location {
    checkpoint::huggingface::SourceTensor source;
    ForeignTensor::Part part;
    bool transposed = false;
    std::int64_t slab_rows = 0;  // of a transposed tensor
  };
  void fill(const checkpoint::Piece& piece) const;

  checkpoint::huggingface::ModelFolder folder_;
  std::map<std::string, Location, std::less<>> locations_;  // by parameter name
};

}  // namespace trireme
