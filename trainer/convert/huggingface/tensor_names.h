#pragma once
#include <string>
#include <vector>

#include "model/stage/model_config.h"
#include "model/tensor/tensor.h"

namespace trireme {

// One tensor of a Hugging Face model: the rows of one or more logical parameters concatenated, and
// transposed where transformers uses Conv1D.
struct ForeignTensor {
  struct Part {
    std::string parameter;  // logical name
    Shape shape;
    std::int64_t first_row;  // its first row in the tensor, before transposing
  };
  std::string name;
  std::vector<Part> parts;
  bool transposed = false;
  bool is_float32 = false;  // whatever the dtype of the model
  Shape shape;
};

// All tensors that transformers saves for a model, in model order.
std::vector<ForeignTensor> foreign_tensors(const ModelConfig& model);

// Whether another tensor may be ignored: buffers saved by older versions, and the head of a model
// with tied embeddings.
bool may_be_ignored(const std::string& name, const ModelConfig& model);

}  // namespace trireme
