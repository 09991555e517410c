#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/huggingface/safetensors_writer.h"
#include "checkpoint/manifest.h"
#include "trainer/convert/huggingface/foreign_weights.h"

namespace trireme {

// The weights of a checkpoint as a Hugging Face model folder's: a block of a tensor at a time,
// whatever layout wrote the checkpoint.
class WeightExport {
 public:
  struct Spec {
    std::filesystem::path checkpoint;  // its folder
    const checkpoint::Manifest& manifest;
    const ModelConfig& model;
    DType dtype = DType::kF32;
    std::uint64_t shard_bytes = 0;  // a file's tensors have no more, unless one alone has
    std::uint64_t block_bytes = 0;  // of a tensor in memory at once, as float32
  };
  // What it refers to outlives it. Throws CheckpointError unless the checkpoint holds the model's
  // weights and no others.
  explicit WeightExport(const Spec& spec);

  std::uint64_t bytes() const { return bytes_; }  // of all tensors
  std::size_t files() const { return files_.size(); }
  std::uint64_t memory() const;  // that write and compare take at most

  // New files in `folder`, synced. Throws CheckpointError where the checkpoint is damaged, or a
  // value is too large for the dtype.
  void write(const std::filesystem::path& folder);
  // Reads the files back by the import's way, and throws CheckpointError unless every weight is
  // the checkpoint's, rounded, to the bit.
  void compare(const ForeignWeights& written);

 private:
  struct Rows {
    std::int64_t first, count;
  };
  std::vector<Rows> blocks(std::int64_t rows, std::int64_t width) const;
  void load(const ForeignTensor::Part& part, Rows rows, Rows columns, float* into) const;
  void write(const ForeignTensor& tensor, checkpoint::huggingface::SafetensorsWriter& file);
  void release();
  void round(const std::string& tensor, std::span<const float> values);
  std::string name_of_file(std::size_t index) const;
  void write_index(const std::filesystem::path& folder) const;

  Spec spec_;
  std::vector<ForeignTensor> tensors_;
  std::vector<std::vector<const ForeignTensor*>> files_;
  std::uint64_t bytes_ = 0;
  std::vector<float> block_, other_;
  std::vector<std::byte> rounded_;
};

// To the nearest of the dtype, and back; a number beyond it becomes infinite.
float rounded_to(DType dtype, float value);

}  // namespace trireme
