#pragma once
#include <string>
#include <vector>

#include "model/stage/model_config.h"
#include "model/tensor/tensor.h"

namespace trireme {

// One tensor of a Hugging Face model: the rows of one or more logical parameters concatenated, and
// transposed where transformers uses Conv1D. A transposed tensor may be several such slabs one
// after the other, one for each expert of gpt-oss, whose rows of gate and up alternate; a slab of
// biases has one column.
struct ForeignTensor {
  struct Part {
    std::string parameter;  // logical name
    Shape shape;
    std::int64_t first_row;     // its first row in the slab, before transposing
    std::int64_t row_step = 1;  // to its next one
    std::int64_t slab = 0;
  };
  std::string name;
  std::vector<Part> parts;
  bool transposed = false;
  bool is_float32 = false;  // whatever the dtype of the model
  Shape shape;

  // Of a slab, before transposing.
  std::int64_t rows() const { return transposed ? shape[shape.rank() - 1] : shape[0]; }
};

// All tensors that transformers saves for a model, in model order.
std::vector<ForeignTensor> foreign_tensors(const ModelConfig& model);

// Whether another tensor may be ignored: buffers saved by older versions, and the head of a model
// with tied embeddings.
bool may_be_ignored(const std::string& name, const ModelConfig& model);

}  // namespace trireme
