#pragma once
#include <deque>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/huggingface/safetensors_header.h"
#include "model/base/file.h"

namespace trireme::checkpoint::huggingface {

// An open safetensors file with a validated header. Throws CheckpointError if the file is not
// valid, before memory is allocated for what the file claims.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::vector<FileTensor>& tensors() const { return tensors_; }
  // Reads bytes [at, at + into.size()) of a tensor of this file.
  void read(const FileTensor& tensor, std::uint64_t at, std::span<std::byte> into) const;
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  File file_;
  std::uint64_t data_ = 0;  // offset of the tensor data
  std::vector<FileTensor> tensors_;
};

// A tensor of a model folder; only dtypes of DType are supported.
struct SourceTensor {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
};

// The weights of a Hugging Face model: a folder with model.safetensors, or with
// model.safetensors.index.json and the shards it lists.
class ModelFolder {
 public:
  static constexpr const char* kConfig = "config.json";
  static constexpr const char* kSingle = "model.safetensors";
  static constexpr const char* kIndex = "model.safetensors.index.json";

  // Throws CheckpointError if index and shards disagree.
  explicit ModelFolder(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  std::vector<std::string> names() const;
  bool contains(const std::string& name) const { return places_.contains(name); }
  // Throws CheckpointError if the tensor is missing or its dtype is not supported.
  SourceTensor find(const std::string& name) const;
  // Reads elements [first, first + into.size()) of a tensor; float64 is rounded to float32.
  void read(const SourceTensor& tensor, std::int64_t first, std::span<float> into) const;

 private:
  struct Place {
    const SafetensorsFile* file;
    const FileTensor* tensor;
  };
  void add(const SafetensorsFile& file);
  std::filesystem::path path_;
  std::deque<SafetensorsFile> files_;
  std::map<std::string, Place> places_;
};

// Whether the folder has Hugging Face weights, rather than a Trireme checkpoint.
bool is_model_folder(const std::filesystem::path& path);

}  // namespace trireme::checkpoint::huggingface
