#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include <emulator/api.h>

// Work that is recorded instead of done. What a device would only find out when the graph is
// launched, or never, is refused while it is recorded.
namespace trireme::emulator {

struct Capture;

// What a stream in a capture has recorded and waited for, or an event has seen there.
struct CapturePlace {
  std::shared_ptr<Capture> capture;
  std::map<cudaStream_t, std::size_t> seen;  // of each stream's works, the first so many

  explicit operator bool() const { return capture != nullptr; }
};

// How many graphs have been instantiated, and how many more are until memory is said to be short.
std::uint64_t instantiated_graphs();
void allow_graphs(std::uint64_t count);

// Whether any stream records.
bool is_capturing();
// For a call that no capture allows: all that are under way come to nothing. Returns refuse(error).
cudaError_t spoil_captures(cudaError_t error);
// Records `work` of a stream in a capture.
cudaError_t capture(CUstream_st& stream, std::function<cudaError_t()> work);
// A stream waits for an event of a capture, and by that is in it.
cudaError_t join(cudaStream_t stream, const CapturePlace& event);

}  // namespace trireme::emulator
