#include "model/device/graph.h"

#include "model/base/error.h"
#include "model/device/cuda/backend.h"

namespace trireme {

Graph::Graph(Stream& stream, const std::function<void()>& work) : device_(stream.device()) {
  require(stream.handle() != nullptr, "only a stream of a CUDA device that executes is recorded");
  cuda::begin_capture(stream.handle(), device_.index);
  try {
    work();
  } catch (...) {
    cuda::abandon_capture(stream.handle(), device_.index);
    throw;
  }
  handle_ = cuda::end_capture(stream.handle(), device_.index);
}
Graph::~Graph() {
  if (handle_ != nullptr) cuda::destroy_graph(handle_, device_.index);
}

void Graph::launch(Stream& stream) {
  cuda::launch_graph(handle_, stream.handle(), device_.index);
}

}  // namespace trireme
