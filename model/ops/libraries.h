#pragma once
#include <string>
#include <vector>

namespace trireme::ops {

// Version of a library at compile time and at run time.
struct LibraryVersion {
  std::string name;
  std::string compiled;
  std::string running;
};
// Libraries used by CUDA ops; none in a build without CUDA.
std::vector<LibraryVersion> cuda_libraries();

}  // namespace trireme::ops
