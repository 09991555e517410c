#pragma once
#include <cstdint>
#include <vector>

#include "model/base/philox.h"
#include "model/device/copy.h"
#include "model/device/memory.h"
#include "model/tensor/tensor.h"

namespace trireme::test {

// float32 values in device memory.
class DeviceValues {
 public:
  DeviceValues(const std::vector<float>& host, Stream& stream)
      : count_(static_cast<std::int64_t>(host.size())),
        memory_(host.size() * sizeof(float), stream.device()),
        stream_(stream) {
    write(host);
    stream.synchronize();
  }
  Tensor tensor() const { return {memory_.data(), DType::kF32, Shape{count_}, stream_.device()}; }
  void write(const std::vector<float>& host) const {
    copy_bytes(stream_, memory_.data(), reinterpret_cast<const std::byte*>(host.data()),
               memory_.bytes());
  }
  std::vector<float> read() const {
    std::vector<float> host(static_cast<std::size_t>(count_));
    copy_bytes(stream_, reinterpret_cast<std::byte*>(host.data()), memory_.data(), memory_.bytes());
    stream_.synchronize();
    return host;
  }

 private:
  std::int64_t count_;
  Memory memory_;
  Stream& stream_;
};

}  // namespace trireme::test
