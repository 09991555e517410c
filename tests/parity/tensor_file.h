#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/base/file.h"
#include "model/tensor/tensor.h"

namespace trireme::parity {

// tensors.json and tensors.bin of a dump; README.md beside this file defines them.
class TensorFile {
 public:
  void add(const std::string& name, const Tensor& tensor) {
    std::vector<std::int64_t> shape;
    for (int dim = 0; dim < tensor.shape.rank(); ++dim) shape.push_back(tensor.shape[dim]);
    index_[name] = {{"dtype", tensor.dtype == DType::kF64 ? "F64" : "F32"},
                    {"shape", shape},
                    {"offset", bytes_.size()}};
    bytes_.append(reinterpret_cast<const char*>(tensor.data), tensor.bytes());
  }
  void write(const std::filesystem::path& folder) const {
    replace_text(folder / "tensors.json", index_.dump(1));
    replace_text(folder / "tensors.bin", bytes_);
  }

 private:
  nlohmann::json index_ = nlohmann::json::object();
  std::string bytes_;
};

}  // namespace trireme::parity
