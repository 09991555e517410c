#pragma once
#include <filesystem>
#include <string>

#include "checkpoint/hdf5/handle.h"
#include "model/tensor/tensor.h"

// The parts the two kinds of file we write share. All of HDF5 is called only in a
// child process (checkpoint/child.h): after a full disk its exit handler crashes.
namespace trireme::checkpoint::hdf5 {

struct Origin {
  std::string run;
  std::int64_t step = 0;
};

// A new file, readable by HDF5 1.10 and later, whose root says where it comes from.
// A file that was not closed is refused by every reader.
Handle create_file(const std::filesystem::path& path, const Origin& origin);

// How values are stored: little endian; bfloat16 as a float of 8 exponent and 7
// mantissa bits, float16 of 5 and 10, which HDF5 and h5py read as such.
Handle type_of(DType dtype);

Handle space_of(Shape shape);

// Makes the groups that a name with '/' needs.
Handle links_with_groups();

void set_attribute(hid_t object, const char* name, std::int64_t value);
void set_attribute(hid_t object, const char* name, const std::string& value);
void set_attribute(hid_t object, const char* name, Shape value);

}  // namespace trireme::checkpoint::hdf5
