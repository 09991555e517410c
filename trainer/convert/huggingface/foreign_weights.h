#pragma once
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/huggingface/model_folder.h"
#include "checkpoint/piece.h"
#include "trainer/convert/huggingface/tensor_names.h"

namespace trireme {

// The weights of a Hugging Face model folder by our names. Each rank opens it for itself and reads
// no more than it asks for.
class ForeignWeights {
 public:
  // Throws CheckpointError with everything that differs from what `model` is to have.
  ForeignWeights(const std::filesystem::path& folder, const ModelConfig& model);

  // Fills pieces of "model/NAME", float32, whatever boxes they are.
  void fill(std::span<const checkpoint::Piece> wanted) const;

 private:
  struct Place {
    checkpoint::huggingface::SourceTensor source;
    ForeignTensor::Part part;
    bool transposed = false;
  };
  void fill(const checkpoint::Piece& piece) const;

  checkpoint::huggingface::ModelFolder folder_;
  std::map<std::string, Place, std::less<>> places_;  // by the parameter's name
};

}  // namespace trireme
