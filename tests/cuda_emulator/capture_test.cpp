// Recording work of streams: what is done when, and what a recording does not allow.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "model/device/copy.h"
#include "model/device/cuda/launch.cuh"
#include "model/device/event.h"
#include "model/device/graph.h"
#include "model/device/memory.h"
#include "tests/cuda_emulator/streams.h"

namespace trireme {
namespace {

// y = y * by + *more
__global__ void advance(int* y, int by, const int* more) {
  *y = *y * by + *more;
}

// Two numbers on the device, and one in pinned memory that becomes the second.
struct Numbers {
  Stream stream{kCuda};
  Memory device{2 * sizeof(int), kCuda};
  Memory host = Memory::pinned(sizeof(int), kCuda);

  int* y() const { return reinterpret_cast<int*>(device.data()); }
  int& given() const { return *reinterpret_cast<int*>(host.data()); }
  void upload(Stream& on) const {
    copy_bytes(on, device.data() + sizeof(int), host.data(), sizeof(int));
  }
  void advance_by(Stream& on, int by) const {
    cuda::launch(advance, 1, 1, 0, on, y(), by, y() + 1);
  }
  int value() {
    int now = 0;
    copy_bytes(stream, reinterpret_cast<std::byte*>(&now), device.data(), sizeof(int));
    return now;
  }
};

Graph captured(Stream& stream, const std::function<void()>& work) {
  GraphCapture capture(stream);
  work();
  return capture.finish();
}

std::string refusal(Stream& stream, const std::function<void()>& work) {
  try {
    captured(stream, work);
  } catch (const EnvironmentError& error) {
    return error.what();
  }
  return "none";
}
void expect_refused(Stream& stream, const std::string& with, const std::function<void()>& work) {
  const std::string said = refusal(stream, work);
  EXPECT_NE(said.find(with), std::string::npos) << said;
  EXPECT_FALSE(emulator::is_capturing());
}

TEST(Capture, does_nothing_and_every_launch_reads_memory_anew) {
  Numbers n;
  n.given() = 1;
  Graph graph = captured(n.stream, [&] {
    n.upload(n.stream);
    n.advance_by(n.stream, 10);
  });
  EXPECT_EQ(graph.nodes(), 2u);
  EXPECT_EQ(n.value(), 0);
  for (const int given : {1, 2, 3}) {
    n.given() = given;
    const std::uint64_t before = emulator::host_calls();
    graph.launch(n.stream);
    EXPECT_EQ(emulator::host_calls() - before, 1u);
    n.stream.synchronize();
  }
  EXPECT_EQ(n.value(), 123);
  n.advance_by(n.stream, 10);  // the stream is as it was
  EXPECT_EQ(n.value(), 1233);
}

TEST(Capture, follows_events_to_other_streams_and_back) {
  Numbers n;
  Stream beside(kCuda);
  Event fork(kCuda), joined(kCuda);
  n.given() = 4;
  Graph graph = captured(n.stream, [&] {
    n.upload(n.stream);
    fork.record(n.stream);
    fork.make_wait(beside);
    n.advance_by(beside, 2);
    joined.record(beside);
    joined.make_wait(n.stream);
    n.advance_by(n.stream, 3);
  });
  EXPECT_EQ(n.value(), 0);
  graph.launch(n.stream);
  EXPECT_EQ(n.value(), 16);  // (0 * 2 + 4) * 3 + 4
  n.advance_by(beside, 2);   // it has left the recording
  beside.synchronize();
  EXPECT_EQ(n.value(), 36);
}

TEST(Capture, refuses_what_cannot_be_done_again) {
  Numbers n;
  Stream beside(kCuda);
  Event before(kCuda), fork(kCuda);
  before.record(beside);
  expect_refused(n.stream, "cudaErrorStreamCaptureUnsupported", [&] { n.stream.synchronize(); });
  expect_refused(n.stream, "cudaErrorStreamCaptureUnsupported",
                 [&] { const Memory more(8, kCuda); });
  expect_refused(n.stream, "cudaErrorStreamCaptureUnsupported", [&] {
    const int pageable = 1;
    copy_bytes(n.stream, n.device.data(), reinterpret_cast<const std::byte*>(&pageable), 4);
  });
  expect_refused(n.stream, "cudaErrorStreamCaptureIsolation", [&] { before.make_wait(n.stream); });
  expect_refused(n.stream, "cudaErrorStreamCaptureUnjoined", [&] {
    fork.record(n.stream);
    fork.make_wait(beside);
    n.advance_by(beside, 2);
  });
  expect_refused(n.stream, "cudaErrorCapturedEvent", [&] {
    fork.record(n.stream);
    fork.synchronize();
  });
  // What has failed once stays failed, whatever its caller makes of it.
  expect_refused(n.stream, "cudaErrorStreamCaptureInvalidated", [&] {
    EXPECT_THROW(n.stream.synchronize(), EnvironmentError);
    n.advance_by(n.stream, 2);
  });
  expect_refused(n.stream, "cudaErrorStreamCaptureImplicit", [&] {
    cuda::check(cudaMemsetAsync(n.device.data(), 0, 4, nullptr), 0, "cudaMemsetAsync");
  });
  n.given() = 7;
  n.upload(n.stream);
  n.advance_by(n.stream, 2);
  EXPECT_EQ(n.value(), 7);
}

TEST(Capture, of_nothing_is_a_graph_that_launches_nothing) {
  Numbers n;
  const std::uint64_t made = emulator::instantiated_graphs(), before = emulator::host_calls();
  Graph graph = captured(n.stream, [] {});
  graph.launch(n.stream);
  EXPECT_EQ(emulator::instantiated_graphs(), made);
  EXPECT_EQ(emulator::host_calls(), before);
}

TEST(Capture, ends_when_the_work_throws) {
  Numbers n;
  EXPECT_THROW(captured(n.stream, [] { throw Error("not today"); }), Error);
  EXPECT_FALSE(emulator::is_capturing());
  n.advance_by(n.stream, 2);
  EXPECT_EQ(n.value(), 0);
}

}  // namespace
}  // namespace trireme
