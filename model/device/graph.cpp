#include "model/device/graph.h"

#include <utility>

#include "model/base/error.h"
#include "model/device/cuda/backend.h"

namespace trireme {

Graph::Graph(Graph&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)),
      nodes_(other.nodes_),
      device_(other.device_) {}
Graph& Graph::operator=(Graph&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(nodes_, other.nodes_);
  std::swap(device_, other.device_);
  return *this;
}
Graph::~Graph() {
  if (handle_ != nullptr) cuda::destroy_graph(handle_, device_.index);
}

void Graph::launch(Stream& stream) {
  if (handle_ != nullptr) cuda::launch_graph(handle_, stream.handle(), device_.index);
}

GraphCapture::GraphCapture(Stream& stream) : stream_(stream) {
  require(stream.handle() != nullptr, "only a stream of a CUDA device that executes is captured");
  cuda::begin_capture(stream.handle(), stream.device().index);
}
GraphCapture::~GraphCapture() {
  if (is_open_) cuda::abandon_capture(stream_.handle(), stream_.device().index);
}

Graph GraphCapture::finish() {
  is_open_ = false;
  const Device device = stream_.device();
  const cuda::CapturedGraph captured = cuda::end_capture(stream_.handle(), device.index);
  return {captured.handle, captured.nodes, device};
}

}  // namespace trireme
