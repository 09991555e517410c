#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/tensor/tensor.h"

// The safetensors format: the length of the header in eight bytes, little-endian; the header, which
// is JSON; the tensors' bytes, little-endian and row-major, without gaps.
namespace trireme::checkpoint::huggingface {

inline constexpr std::uint64_t kMostHeader = 100'000'000;  // bytes, limit of the format
inline constexpr std::uint64_t kLengthBytes = 8;

// One tensor of a file.
struct FileTensor {
  std::string name;
  std::string dtype;  // dtype name of the format: "F32", "BF16"
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;  // byte range relative to the end of the header
};

// Validates untrusted text: keys, dtypes, shapes, and that the tensors' bytes are contiguous and
// add up to `bytes`. Memory is proportional to the valid part of the text. Returns the tensors in
// order of offset. Throws CheckpointError naming `from`.
std::vector<FileTensor> parse_header(std::string_view text, std::uint64_t bytes,
                                     const std::string& from);

// A tensor to write; the header below includes its length and padding.
struct NewTensor {
  std::string name;
  Shape shape;
  std::optional<DType> dtype = {};  // if it is not that of the others

  std::uint64_t bytes(DType of_others) const {
    return static_cast<std::uint64_t>(shape.count()) * size_of(dtype.value_or(of_others));
  }
};
std::string header_text(std::span<const NewTensor> tensors, DType dtype);

// DType for a dtype name of the format ("F32"); nullopt if there is none.
std::optional<DType> dtype_of_file(std::string_view name);
const char* file_dtype(DType dtype);

}  // namespace trireme::checkpoint::huggingface
