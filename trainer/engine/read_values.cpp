#include "trainer/engine/read_values.h"

#include "model/base/error.h"
#include "model/device/copy.h"

namespace trireme {
namespace {

template <class T>
std::vector<T> copied(Stream& stream, const Tensor& tensor) {
  std::vector<T> values(static_cast<std::size_t>(tensor.count()));
  copy_bytes(stream, reinterpret_cast<std::byte*>(values.data()), tensor.data, tensor.bytes());
  stream.synchronize();
  return values;
}

}  // namespace

std::vector<double> read_values(Stream& stream, const Tensor& tensor) {
  if (tensor.dtype == DType::kF64) return copied<double>(stream, tensor);
  require(tensor.dtype == DType::kF32, "reads float32 and float64 only");
  const std::vector<float> values = copied<float>(stream, tensor);
  return {values.begin(), values.end()};
}

}  // namespace trireme
