#pragma once
#include <functional>

#include "model/device/stream.h"

namespace trireme {

// A CUDA graph: work of a stream that is captured once and then launched repeatedly by one call,
// without the launch overhead of its parts.
class Graph {
 public:
  // Captures the work that `work` enqueues on `stream` and on streams forked from and joined to it;
  // nothing is executed. Kernel arguments are fixed at capture; memory, including pinned host
  // memory, is read on every launch, at the same address. `work` must neither synchronize with the
  // device nor allocate or free device memory: that throws EnvironmentError.
  Graph(Stream& stream, const std::function<void()>& work);
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph();

  void launch(Stream& stream);

 private:
  Device device_;
  void* handle_ = nullptr;
};

}  // namespace trireme
