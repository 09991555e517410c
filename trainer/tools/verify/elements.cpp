#include "trainer/tools/verify/elements.h"

#include "checkpoint/format/values.h"
#include "model/device/copy.h"

namespace trireme::verify {

std::vector<double> read_elements(Stream& stream, const Tensor& tensor) {
  std::vector<std::byte> bytes(tensor.bytes());
  copy_bytes(stream, bytes.data(), tensor.data, bytes.size());
  stream.synchronize();
  std::vector<double> values;
  values.reserve(tensor.count());
  checkpoint::for_each_value(bytes, tensor.dtype, [&](double value) { values.push_back(value); });
  return values;
}

void write_elements(Stream& stream, const Tensor& tensor, std::span<const float> values) {
  const auto write = [&](const auto* data) {
    copy_bytes(stream, tensor.data, reinterpret_cast<const std::byte*>(data), tensor.bytes());
    stream.synchronize();
  };
  require(values.size() == static_cast<std::size_t>(tensor.count()),
          "the number of values must equal the number of elements");
  if (tensor.dtype == DType::kF64) {
    return write(std::vector<double>(values.begin(), values.end()).data());
  }
  require(tensor.dtype == DType::kF32, "the tensor must be float32");
  write(values.data());
}

}  // namespace trireme::verify
