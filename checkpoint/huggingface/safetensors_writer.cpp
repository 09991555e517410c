#include "checkpoint/huggingface/safetensors_writer.h"

#include "model/base/error.h"

namespace trireme::checkpoint::huggingface {

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path,
                                     std::span<const NewTensor> tensors, DType dtype)
    : file_(File::create_new(path)) {
  file_.write_all(header_text(tensors, dtype));
  for (const NewTensor& tensor : tensors) {
    left_ += tensor.bytes(dtype);
  }
}

void SafetensorsWriter::append(std::span<const std::byte> bytes) {
  require(bytes.size() <= left_, "more bytes than the tensors have");
  file_.write_all(bytes);
  left_ -= bytes.size();
}

void SafetensorsWriter::finish() {
  require(left_ == 0, left_, " bytes of the tensors are missing");
  file_.sync();
  file_.close();
}

}  // namespace trireme::checkpoint::huggingface
