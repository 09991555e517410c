#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/tensor/tensor.h"

// The safetensors format: eight bytes with the length of a header, little endian, the header, which
// is JSON, and the tensors' bytes, little endian and row-major, without holes.
namespace trireme::checkpoint::huggingface {

inline constexpr std::uint64_t kMostHeader = 100'000'000;  // bytes, by the format
inline constexpr std::uint64_t kLengthBytes = 8;

// One tensor of a file.
struct FileTensor {
  std::string name;
  std::string dtype;  // in the format's words: "F32", "BF16"
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;  // of its bytes, counted from the header's end
};

// Trusts nothing: keys, dtypes, shapes, that the tensors' bytes follow each other without a hole
// and are all of `bytes`. Needs memory in proportion to what is right of the text. In the order of
// their bytes. Throws CheckpointError naming `from`.
std::vector<FileTensor> parse_header(std::string_view text, std::uint64_t bytes,
                                     const std::string& from);

// The beginning of a file of tensors of one dtype in this order, its length and padding included.
struct NewTensor {
  std::string name;
  Shape shape;
};
std::string header_text(std::span<const NewTensor> tensors, DType dtype);

// "F32" for kF32; nothing for what we have no dtype for.
std::optional<DType> dtype_of_file(std::string_view name);
const char* file_dtype(DType dtype);

}  // namespace trireme::checkpoint::huggingface
