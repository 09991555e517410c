#pragma once
#include <cstddef>

#include "model/device/copy.h"
#include "model/device/memory.h"
#include "model/tensor/tensor.h"

namespace trireme {

// Host access to a tensor: the tensor itself on the CPU, otherwise a copy in pinned host memory.
class HostMirror {
 public:
  HostMirror() = default;
  // On a planning stream there is nothing to read or write.
  HostMirror(const Stream& stream, Tensor tensor) : tensor_(tensor), host_(tensor) {
    if (!tensor.device.is_cuda() || !stream.executes()) return;
    memory_ = Memory::pinned(tensor.bytes(), tensor.device);
    host_ = {memory_.data(), tensor.dtype, tensor.shape, Device{}};
  }

  const Tensor& tensor() const { return tensor_; }
  const Tensor& host() const { return host_; }
  // Host access to `part`, a part of the tensor.
  Tensor host(const Tensor& part) const {
    return {host_.data + (part.data - tensor_.data), part.dtype, part.shape, host_.device};
  }
  // Enqueues the copy to the tensor; download() is the reverse.
  void upload(Stream& stream) const { copy(stream, tensor_, host_); }
  void download(Stream& stream) const { copy(stream, host_, tensor_); }

 private:
  void copy(Stream& stream, const Tensor& to, const Tensor& from) const {
    if (to.data != from.data && stream.executes()) {
      copy_bytes(stream, to.data, from.data, from.bytes());
    }
  }
  Tensor tensor_, host_;
  Memory memory_;
};

}  // namespace trireme
