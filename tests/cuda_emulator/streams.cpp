#include "tests/cuda_emulator/streams.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/cuda_emulator/device_memory.h"
#include "tests/cuda_emulator/device_queues.h"

using trireme::emulator::in_job;
using trireme::emulator::is_capturing;
using trireme::emulator::refuse;
using trireme::emulator::spoil_captures;

namespace {

std::vector<cudaStream_t> streams;
std::uint64_t waits = 0, calls = 0;

cudaError_t advance(cudaStream_t stream, std::uint64_t position) {
  if (stream->done >= position) return cudaSuccess;
  if (in_job()) return trireme::emulator::wait_for_stream(stream, position);
  cudaError_t worst = cudaSuccess;
  const trireme::emulator::DeviceMemory::Access access;  // guarded again once, at the end
  while (stream->done < position) {
    const auto work = std::move(stream->work.front());
    stream->work.pop_front();
    const cudaError_t error = work();
    ++stream->done;
    if (error != cudaSuccess) worst = error;
  }
  return worst;
}

cudaError_t wait_for(cudaStream_t stream, std::uint64_t position) {
  if (stream->done < position) ++waits;
  if (in_job()) return trireme::emulator::wait_for_stream(stream, position);
  return advance(stream, position);
}

bool lives(cudaStream_t stream) {
  return std::find(streams.begin(), streams.end(), stream) != streams.end();
}

}  // namespace

namespace trireme::emulator {

std::uint64_t host_waits() {
  return waits;
}

std::uint64_t host_calls() {
  return calls;
}

cudaError_t enqueue(cudaStream_t stream, std::function<cudaError_t()> work, Work kind) {
  if (stream && stream->capture) return capture(*stream, std::move(work));
  ++calls;
  if (stream && in_job()) {
    queue_work(stream, kind == Work::kKernel ? Engine::kMultiprocessors : Engine::kCopies,
               std::move(work));
    return cudaSuccess;
  }
  if (stream) {
    stream->work.push_back(std::move(work));
    ++stream->queued;
    return cudaSuccess;
  }
  if (is_capturing()) return spoil_captures(cudaErrorStreamCaptureImplicit);
  const cudaError_t earlier = finish_streams(true), error = work();
  return error != cudaSuccess ? error : earlier;
}

cudaError_t finish_streams(bool blocking_only) {
  if (in_job()) return wait_for_device(blocking_only);
  cudaError_t worst = cudaSuccess;
  for (const cudaStream_t stream : streams) {
    if (blocking_only && !stream->blocking) continue;
    const cudaError_t error = wait_for(stream, stream->queued);
    if (error != cudaSuccess) worst = error;
  }
  return worst;
}

}  // namespace trireme::emulator

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  *stream = new CUstream_st;
  (*stream)->blocking = (flags & cudaStreamNonBlocking) == 0;
  streams.push_back(*stream);
  if (in_job()) trireme::emulator::map_stream(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (stream && stream->capture) return spoil_captures(cudaErrorStreamCaptureUnsupported);
  if (stream) return wait_for(stream, stream->queued);
  if (is_capturing()) return spoil_captures(cudaErrorStreamCaptureImplicit);
  return trireme::emulator::finish_streams(true);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (stream->capture) return spoil_captures(cudaErrorStreamCaptureUnsupported);
  const cudaError_t error = advance(stream, stream->queued);
  if (in_job()) trireme::emulator::unmap_stream(stream);
  streams.erase(std::remove(streams.begin(), streams.end(), stream), streams.end());
  delete stream;
  return error;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (event->captured) return trireme::emulator::join(stream, event->capture);
  if (!event->stream) return cudaSuccess;
  // What waits for something outside could not be done again.
  if (stream && stream->capture) return spoil_captures(cudaErrorStreamCaptureIsolation);
  if (in_job()) {
    trireme::emulator::queue_work(
        stream, trireme::emulator::Engine::kNone, [] { return cudaSuccess; },
        [from = event->stream, position = event->position] {
          return !lives(from) || from->done >= position;
        },
        "a wait for an event");
    return cudaSuccess;
  }
  return trireme::emulator::enqueue(stream, [from = event->stream, position = event->position] {
    return lives(from) ? advance(from, position) : cudaSuccess;
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (in_job()) {
    delete event;
    return cudaSuccess;
  }
  // its stream still writes to it
  const cudaError_t error =
      lives(event->stream) ? advance(event->stream, event->position) : cudaSuccess;
  delete event;
  return error;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  event->captured = stream && stream->capture;
  if (event->captured) {
    event->capture = stream->capture;
    return cudaSuccess;
  }
  // A stream with nothing to do reaches it at once, though nobody sees that before waiting.
  const bool idle = !stream || stream->done == stream->queued;
  if (stream && in_job()) {
    trireme::emulator::queue_work(
        stream, trireme::emulator::Engine::kNone, [] { return cudaSuccess; }, nullptr, "an event");
    event->stream = stream;
    event->position = stream->queued;
    event->reached = std::chrono::steady_clock::now();
    return cudaSuccess;
  }
  const cudaError_t error = trireme::emulator::enqueue(
      stream, [event, idle, recorded = std::chrono::steady_clock::now()] {
        event->reached = idle ? recorded : std::chrono::steady_clock::now();
        return cudaSuccess;
      });
  event->stream = stream;
  event->position = stream ? stream->queued : 0;
  return error;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (event->captured) return spoil_captures(cudaErrorCapturedEvent);
  return lives(event->stream) ? wait_for(event->stream, event->position) : cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (event->captured) return spoil_captures(cudaErrorCapturedEvent);
  return lives(event->stream) && event->stream->done < event->position ? cudaErrorNotReady
                                                                       : cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  if (cudaEventQuery(from) != cudaSuccess || cudaEventQuery(to) != cudaSuccess) {
    return cudaErrorNotReady;
  }
  *milliseconds = std::chrono::duration<float, std::milli>(to->reached - from->reached).count();
  return cudaSuccess;
}
