#include "model/ops/libraries.h"

#include "model/ops/cuda/libraries.h"

namespace trireme::ops {

#ifdef TRIREME_CUDA
std::vector<LibraryVersion> cuda_libraries() {
  return cuda::libraries();
}
#else
std::vector<LibraryVersion> cuda_libraries() {
  return {};
}
#endif

}  // namespace trireme::ops
