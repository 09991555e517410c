#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "checkpoint/huggingface/safetensors_header.h"
#include "model/base/error.h"

namespace {

namespace huggingface = trireme::checkpoint::huggingface;

// What the reader relies on without looking again.
void check_places(const std::vector<huggingface::FileTensor>& tensors, std::uint64_t bytes) {
  std::uint64_t end = 0;
  for (const auto& tensor : tensors) {
    if (tensor.begin != end || tensor.end < tensor.begin || tensor.end > bytes) std::abort();
    end = tensor.end;
    const auto dtype = huggingface::dtype_of_file(tensor.dtype);
    if (!dtype) continue;
    std::uint64_t count = 1;
    for (const std::int64_t extent : tensor.shape) count *= static_cast<std::uint64_t>(extent);
    if (count * trireme::size_of(*dtype) != tensor.end - tensor.begin) std::abort();
  }
  if (end != bytes) std::abort();
}

void parse(const std::string& text, std::uint64_t bytes) {
  try {
    check_places(huggingface::parse_header(text, bytes, "model.safetensors"), bytes);
  } catch (const trireme::CheckpointError& error) {
    if (std::string(error.what()).empty()) std::abort();
  }
}

}  // namespace

// Any header either gives tensors that lie one after the other in the file, or one
// CheckpointError. The first two bytes say how many bytes the file has for them; a header whose
// tensors need just as many as it says itself is reached by the sizes that often occur.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::uint64_t said = data[0] + std::uint64_t{256} * data[1];
  const std::string text(reinterpret_cast<const char*>(data + 2), size - 2);
  for (const std::uint64_t bytes : {said, std::uint64_t{0}, std::uint64_t{24}, std::uint64_t{32}}) {
    parse(text, bytes);
  }
  return 0;
}
