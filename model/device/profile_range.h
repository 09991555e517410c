#pragma once
#include <cstdint>

#include "model/device/stream.h"

namespace trireme {

// A named part of the host's work, which NVIDIA's profilers show with the kernels that it launches
// (NVTX). Without a profiler it costs a call on GPUs, and a comparison on other devices.
class ProfileRange {
 public:
  // `name` is a literal; `number`, a layer or micro-batch, is shown with it.
  ProfileRange(const Stream& stream, const char* name, std::int64_t number = -1)
      : is_open_(stream.executes() && stream.on_cuda()) {
    if (is_open_) begin(name, number);
  }
  ~ProfileRange() {
    if (is_open_) end();
  }
  ProfileRange(const ProfileRange&) = delete;
  ProfileRange& operator=(const ProfileRange&) = delete;

 private:
  static void begin(const char* name, std::int64_t number) noexcept;
  static void end() noexcept;

  bool is_open_;
};

}  // namespace trireme
