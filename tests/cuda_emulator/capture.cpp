#include "tests/cuda_emulator/capture.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "tests/cuda_emulator/device_memory.h"
#include "tests/cuda_emulator/streams.h"

using Works = std::vector<std::function<cudaError_t()>>;

struct CUgraph_st {
  std::shared_ptr<const Works> works;
};
struct CUgraphExec_st {
  std::shared_ptr<const Works> works;
};

namespace trireme::emulator {

struct Capture {
  cudaStream_t origin = nullptr;
  std::vector<cudaStream_t> streams;  // the origin, and those that have joined
  std::map<cudaStream_t, std::size_t> recorded;
  Works works;  // in the order of the calls, which every dependency follows
  bool spoiled = false;
};

namespace {

std::vector<Capture*> under_way;
std::uint64_t graphs_made = 0, graphs_allowed = std::numeric_limits<std::uint64_t>::max();

void take_over(CapturePlace& to, const CapturePlace& from) {
  for (const auto& [stream, count] : from.seen) {
    to.seen[stream] = std::max(to.seen[stream], count);
  }
}

}  // namespace

std::uint64_t instantiated_graphs() {
  return graphs_made;
}

void allow_graphs(std::uint64_t count) {
  graphs_allowed = count;
}

bool is_capturing() {
  return !under_way.empty();
}

cudaError_t spoil_captures(cudaError_t error) {
  for (Capture* capture : under_way) capture->spoiled = true;
  return refuse(error);
}

cudaError_t capture(CUstream_st& stream, std::function<cudaError_t()> work) {
  Capture& capture = *stream.capture.capture;
  if (capture.spoiled) return refuse(cudaErrorStreamCaptureInvalidated);
  capture.works.push_back(std::move(work));
  stream.capture.seen[&stream] = ++capture.recorded[&stream];
  return cudaSuccess;
}

cudaError_t join(cudaStream_t stream, const CapturePlace& event) {
  if (!stream) return spoil_captures(cudaErrorStreamCaptureImplicit);
  const bool lives =
      std::find(under_way.begin(), under_way.end(), event.capture.get()) != under_way.end();
  if (!lives) return refuse(cudaErrorCapturedEvent);
  if (!stream->capture) {
    stream->capture.capture = event.capture;
    event.capture->streams.push_back(stream);
  }
  if (stream->capture.capture != event.capture) return spoil_captures(cudaErrorStreamCaptureMerge);
  take_over(stream->capture, event);
  return cudaSuccess;
}

}  // namespace trireme::emulator

using trireme::emulator::Capture;
using trireme::emulator::refuse;
using trireme::emulator::under_way;

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (!stream) return refuse(cudaErrorStreamCaptureUnsupported);
  if (stream->capture) return refuse(cudaErrorIllegalState);
  const auto capture = std::make_shared<Capture>();
  capture->origin = stream;
  capture->streams = {stream};
  stream->capture.capture = capture;
  under_way.push_back(capture.get());
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  if (!stream || !stream->capture) return refuse(cudaErrorIllegalState);
  const std::shared_ptr<Capture> capture = stream->capture.capture;
  if (capture->origin != stream) return refuse(cudaErrorStreamCaptureUnmatched);
  const std::map<cudaStream_t, std::size_t> seen = stream->capture.seen;
  for (const cudaStream_t each : capture->streams) each->capture = {};
  under_way.erase(std::find(under_way.begin(), under_way.end(), capture.get()));
  if (capture->spoiled) return refuse(cudaErrorStreamCaptureInvalidated);
  for (const auto& [each, recorded] : capture->recorded) {
    const auto found = seen.find(each);
    if (found == seen.end() || found->second < recorded) {
      return refuse(cudaErrorStreamCaptureUnjoined);
    }
  }
  *graph = new CUgraph_st{std::make_shared<const Works>(std::move(capture->works))};
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, void*, std::size_t* count) {
  *count = graph->works->size();
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
  if (trireme::emulator::graphs_allowed == 0) return refuse(cudaErrorMemoryAllocation);
  --trireme::emulator::graphs_allowed;
  ++trireme::emulator::graphs_made;
  *made = new CUgraphExec_st{graph->works};
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  return trireme::emulator::enqueue(stream, [works = graph->works] {
    const trireme::emulator::DeviceMemory::Access access;
    cudaError_t worst = cudaSuccess;
    for (const auto& work : *works) {
      if (const cudaError_t error = work(); error != cudaSuccess) worst = error;
    }
    return worst;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete graph;
  return cudaSuccess;
}
