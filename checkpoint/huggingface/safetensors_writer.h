#pragma once
#include <cstdint>
#include <filesystem>
#include <span>

#include "checkpoint/huggingface/safetensors_header.h"
#include "model/base/file.h"

namespace trireme::checkpoint::huggingface {

// Writes a safetensors file of tensors that are known beforehand; their bytes are appended in
// order.
class SafetensorsWriter {
 public:
  SafetensorsWriter(const std::filesystem::path& path, std::span<const NewTensor> tensors,
                    DType dtype);
  void append(std::span<const std::byte> bytes);
  // Syncs the file; all bytes must have been appended.
  void finish();

 private:
  File file_;
  std::uint64_t left_ = 0;
};

}  // namespace trireme::checkpoint::huggingface
