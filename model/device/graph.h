#pragma once
#include <cstddef>

#include "model/device/stream.h"

namespace trireme {

// A CUDA graph: captured work of a stream that is launched repeatedly by one call, without the
// launch overhead of its parts.
class Graph {
 public:
  Graph() = default;  // of no work
  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&& other) noexcept;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph();

  void launch(Stream& stream);
  std::size_t nodes() const { return nodes_; }

 private:
  friend class GraphCapture;
  Graph(void* handle, std::size_t nodes, Device device)
      : handle_(handle), nodes_(nodes), device_(device) {}

  void* handle_ = nullptr;
  std::size_t nodes_ = 0;
  Device device_;
};

// Captures the work that is enqueued on a stream, and on streams forked from and joined to it, from
// the constructor to finish(); nothing is executed. Kernel arguments are fixed at capture; memory,
// including pinned host memory, is read on every launch, at the same address. The work must neither
// synchronize with the device nor allocate or free device memory: the failing call, or finish(),
// throws EnvironmentError.
class GraphCapture {
 public:
  explicit GraphCapture(Stream& stream);
  GraphCapture(const GraphCapture&) = delete;
  GraphCapture& operator=(const GraphCapture&) = delete;
  // Abandons an unfinished capture.
  ~GraphCapture();

  // Called once.
  Graph finish();

 private:
  Stream& stream_;
  bool is_open_ = true;
};

}  // namespace trireme
