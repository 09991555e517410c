#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include <emulator/api.h>
#include "model/device/device.h"
#include "tests/cuda_emulator/capture.h"

// Work waits until somebody waits for it: what relies on a stream being quick is found out.
struct CUstream_st {
  bool blocking = true;  // waits for the null stream, which waits for it
  std::uint64_t queued = 0, done = 0;
  std::deque<std::function<cudaError_t()>> work;
  trireme::emulator::CapturePlace capture;  // where its work goes instead, in a capture
  // In a job:
  int device = 0;
  std::size_t hardware_queue = 0;
  cudaError_t failed = cudaSuccess;  // first error of unsynchronized work
};

struct CUevent_st {
  cudaStream_t stream = nullptr;  // null: what was recorded is done
  std::uint64_t position = 0;     // of the stream when the event was recorded
  std::chrono::steady_clock::time_point reached;
  bool captured = false;  // what was recorded last belongs to a capture, here:
  trireme::emulator::CapturePlace capture;
};

namespace trireme {

inline constexpr Device kCuda{Device::Kind::kCuda, 0};  // of the tests

}  // namespace trireme

namespace trireme::emulator {

// Queues `work`; on the null stream it is done at once. In a job a kernel needs multiprocessors.
enum class Work : unsigned char { kOther, kKernel };
cudaError_t enqueue(cudaStream_t stream, std::function<cudaError_t()> work,
                    Work kind = Work::kOther);
// Does what is queued, on every stream or on those that the null stream waits for.
cudaError_t finish_streams(bool blocking_only);
// How often the host has had to wait for a stream.
std::uint64_t host_waits();
// How often it has queued work on one; a graph counts once.
std::uint64_t host_calls();

}  // namespace trireme::emulator
