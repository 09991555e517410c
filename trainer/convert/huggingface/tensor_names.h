#pragma once
#include <string>
#include <vector>

#include "model/stage/model_config.h"
#include "model/tensor/tensor.h"

namespace trireme {

// One tensor of a Hugging Face model: logical parameters, the rows of one after those of the
// other, and then, where transformers has a Conv1D, transposed.
struct ForeignTensor {
  struct Part {
    std::string parameter;  // its logical name
    Shape shape;
    std::int64_t first_row;  // of its first, before it is transposed
  };
  std::string name;
  std::vector<Part> parts;
  bool transposed = false;
  Shape shape;
};

// Every tensor of a model that transformers saves, in the order of the model.
std::vector<ForeignTensor> foreign_tensors(const ModelConfig& model);

// Whether a tensor that is none of the above may be passed over: tables that older versions saved,
// and the head of a model whose head is its embedding.
bool may_be_ignored(const std::string& name, const ModelConfig& model);

}  // namespace trireme
