#pragma once
#include <hdf5.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

#include "model/tensor/tensor.h"

// Common parts of shard files and view files. HDF5 is called only in a child process (child.h),
// since its exit handler crashes after a full disk.
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

struct Origin {
  std::string run;
  std::int64_t step = 0;
};

// Creates a file, readable by HDF5 1.10 and later, whose root group records its origin. Readers
// reject a file that was not closed.
Handle create_file(const std::filesystem::path& path, const Origin& origin);

// Little-endian storage types; bfloat16 is a float with 8 exponent and 7 mantissa bits, float16 one
// with 5 and 10, which HDF5 and h5py read natively.
Handle type_of(DType dtype);

Handle space_of(Shape shape);

// Link creation properties that create the groups of a name with '/'.
Handle links_with_groups();

void set_attribute(hid_t object, const char* name, std::int64_t value);
void set_attribute(hid_t object, const char* name, const std::string& value);
void set_attribute(hid_t object, const char* name, Shape value);

}  // namespace trireme::checkpoint::hdf5
