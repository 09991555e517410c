#pragma once
#include <string>
#include <vector>

namespace trireme::ops {

// A library as this program was compiled with it and as it runs with it.
struct LibraryVersion {
  std::string name;
  std::string compiled;
  std::string running;
};
// Those that CUDA's ops use; none in a build without CUDA.
std::vector<LibraryVersion> cuda_libraries();

}  // namespace trireme::ops
