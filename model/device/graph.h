#pragma once
#include <functional>

#include "model/device/stream.h"

namespace trireme {

// A stretch of a CUDA stream's work that is recorded once and then queued by one call, as often
// as one likes: the host does not issue its parts again, and the device need not wait for it.
class Graph {
 public:
  // Records what `work` queues on `stream`, and on streams that wait for it there and that it
  // waits for at the end; nothing of it is done. Numbers that are handed to kernels stay what
  // they are now; what lies in memory, pinned memory of the host included, is read anew in
  // every launch, from the same place. `work` must not wait for the device, nor take or give
  // back memory of it. Throws EnvironmentError where it does.
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
