#pragma once
#include <hdf5.h>

#include <string>
#include <utility>

namespace trireme::checkpoint::hdf5 {

// Throws EnvironmentError with `doing` and HDF5's innermost error message.
[[noreturn]] void fail(const std::string& doing);

inline void check(herr_t status, const std::string& doing) {
  if (status < 0) fail(doing);
}

// An HDF5 identifier with its close function. HDF5 may write, and fail, on close: call close()
// explicitly where that matters; the destructor ignores errors.
class Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Handle(hid_t id, Close close_with, const std::string& doing) : id_(id), close_(close_with) {
    if (id < 0) fail(doing);
  }
  Handle(Handle&& other) noexcept
      : id_(std::exchange(other.id_, H5I_INVALID_HID)), close_(other.close_) {}
  Handle& operator=(Handle&&) = delete;
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  hid_t id() const { return id_; }
  void close(const std::string& doing) {
    check(close_(std::exchange(id_, H5I_INVALID_HID)), doing);
  }

 private:
  hid_t id_;
  Close close_;
};

}  // namespace trireme::checkpoint::hdf5
