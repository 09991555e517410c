#pragma once
#include <filesystem>
#include <string>

#include "checkpoint/hdf5/handle.h"
#include "model/tensor/tensor.h"

// Common parts of shard files and view files. HDF5 is called only in a child process
// (checkpoint/child.h), since its exit handler crashes after a full disk.
namespace trireme::checkpoint::hdf5 {

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
