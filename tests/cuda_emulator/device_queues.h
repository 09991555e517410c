#pragma once
#include <cstddef>
#include <functional>
#include <string>

#include <emulator/api.h>
#include "tests/cuda_emulator/ranks.h"

// The devices of a job. Streams are mapped onto a bounded number of hardware queues, whose heads
// start in order: work behind a head that cannot start waits, whatever its stream. A kernel needs
// free multiprocessors, and one that waits for another device keeps them.
namespace trireme::emulator {

// A kernel that spins until others let it end.
struct LongKernel {
  int multiprocessors = 1;
  std::function<bool()> ready;         // beyond the order of its stream
  std::function<void()> begin;         // called when it starts
  std::function<std::string()> waits;  // what it spins for, for a hang's report
  std::string name;
};

void open_devices(const JobOptions& options);
void close_devices();
std::size_t hardware_queues();  // of each device
// A new stream of the current device.
void map_stream(cudaStream_t stream);
void unmap_stream(cudaStream_t stream);

enum class Engine : unsigned char { kNone, kCopies, kMultiprocessors };
// Queues work that ends as soon as it has started, once `ready`.
void queue_work(cudaStream_t stream, Engine engine, std::function<cudaError_t()> work,
                std::function<bool()> ready = nullptr, std::string name = "work");
// Queues `kernel`, which runs until finish_kernel(stream).
void queue_kernel(cudaStream_t stream, LongKernel kernel);
// Ends the kernel that runs on `stream`.
void finish_kernel(cudaStream_t stream);

// Return when the running rank's device has no kernel that spins; when the streams it has now are
// done; when `stream` has come to `position`.
void wait_for_running_kernels(const std::string& what);
cudaError_t wait_for_device(bool blocking_only);
cudaError_t wait_for_stream(cudaStream_t stream, std::uint64_t position);
// The first launch of a kernel on a device loads it, unless all were loaded at the start.
void load_kernel(const void* kernel);

bool can_start(std::size_t device, std::size_t queue);
void start(std::size_t device, std::size_t queue);
bool devices_are_idle();
std::string describe_devices();

}  // namespace trireme::emulator
