#include "model/ops/cuda/libraries.h"

#include <cublasLt.h>
#include <cudnn.h>

#include "model/base/error.h"
#include "model/ops/cuda/attention_cudnn.h"

namespace trireme::ops::cuda {
namespace {

// 130002 is 13.0.2, 91300 is 9.13.0.
std::string text_of(std::size_t version, std::size_t major, std::size_t minor) {
  return say(version / major, ".", version % major / minor, ".", version % minor);
}

}  // namespace

std::vector<LibraryVersion> libraries() {
  return {
      {"cuBLASLt", say(CUBLAS_VER_MAJOR, ".", CUBLAS_VER_MINOR, ".", CUBLAS_VER_PATCH),
       text_of(cublasLtGetVersion(), 10000, 100)},
      {"cuDNN", say(CUDNN_MAJOR, ".", CUDNN_MINOR, ".", CUDNN_PATCHLEVEL),
       text_of(cudnnGetVersion(), 10000, 100)},
      {"attention by", cudnn_attention_build(), cudnn_attention_build()},
  };
}

}  // namespace trireme::ops::cuda
