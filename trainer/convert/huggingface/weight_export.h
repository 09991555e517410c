#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/format/manifest.h"
#include "checkpoint/format/names.h"
#include "checkpoint/huggingface/safetensors_writer.h"
#include "trainer/convert/huggingface/foreign_weights.h"

namespace trireme {

// Exports the weights of a checkpoint of any layout as Hugging Face safetensors, one block of a
// tensor at a time.
class WeightExport {
 public:
  struct Spec {
    std::filesystem::path checkpoint;  // folder
    const checkpoint::Manifest& manifest;
    const ModelConfig& model;
    DType dtype = DType::kF32;
    std::uint64_t shard_bytes = 0;  // maximum size of a file, unless a single tensor is larger
    std::uint64_t block_bytes = 0;  // size of a float32 block in memory
    // Of the tensors' names; the other one is kAveragePrefix.
    std::string prefix = std::string(checkpoint::kWeightsPrefix);
  };
  // All references must outlive this. Throws CheckpointError unless the checkpoint has exactly the
  // weights of the model.
  explicit WeightExport(const Spec& spec);

  std::uint64_t bytes() const { return bytes_; }  // of all tensors
  std::size_t files() const { return files_.size(); }
  std::uint64_t memory() const;  // peak memory of write() and compare()

  // Writes and syncs new files in `folder`. Throws CheckpointError if the checkpoint is damaged or
  // a value overflows the dtype.
  void write(const std::filesystem::path& folder);
  // Reads the files back with the import's code; throws CheckpointError unless every weight is
  // bit-identical to the rounded weight of the checkpoint.
  void compare(const ForeignWeights& written);

 private:
  struct Rows {
    std::int64_t first, count;
  };
  std::vector<Rows> blocks(std::int64_t rows, std::int64_t width) const;
  void load(const ForeignTensor::Part& part, Rows rows, Rows columns, float* into) const;
  void write(const ForeignTensor& tensor, checkpoint::huggingface::SafetensorsWriter& file);
  // One of a transposed tensor.
  void write_slab(const ForeignTensor& tensor, std::span<const ForeignTensor::Part> parts,
                  checkpoint::huggingface::SafetensorsWriter& file);
  void release();
  DType dtype_of(const ForeignTensor& tensor) const {
    return tensor.is_float32 ? DType::kF32 : spec_.dtype;
  }
  void round(const ForeignTensor& tensor, std::span<const float> values);
  std::string name_of_file(std::size_t index) const;
  void write_index(const std::filesystem::path& folder) const;

  Spec spec_;
  std::vector<ForeignTensor> tensors_;
  std::vector<std::vector<const ForeignTensor*>> files_;
  std::uint64_t bytes_ = 0;
  std::vector<float> block_, other_;
  std::vector<std::byte> rounded_;
};

// Rounds to the nearest value of the dtype; overflow becomes infinity.
float rounded_to(DType dtype, float value);

}  // namespace trireme
