#pragma once
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "model/device/devices.h"
#include "model/device/memory.h"
#include "model/device/stream.h"
#include "model/ops/cuda/matmul.h"
#include "model/ops/gemm_cache.h"

namespace trireme::ops::cuda {

// Runs a process's matrix products on one CUDA device. A class of shapes gets its algorithm
// with its first product: the one process_choices() has, else what this user's cache knows for
// this device, library and driver, else the fastest of those cuBLASLt proposes, timed on the
// very operands. The same choice gives the same bits.
class GemmEngine {
 public:
  // Timings go to and come from `cache_folder`; an empty path keeps none.
  GemmEngine(Device device, const std::filesystem::path& cache_folder);

  // Queues the product. Products of several streams wait for each other: there is one
  // workspace.
  void run(Stream& stream, const MatMul& product);

 private:
  struct Decided {
    MatMulPlan plan;
    cublasLtMatmulAlgo_t algorithm{};
  };
  Decided decide(Stream& stream, const MatMul& product);
  std::string measured(Stream& stream, const MatMul& product, MatMulPlan& plan);
  cublasLtMatmulAlgo_t measure(Stream& stream, const MatMul& product, MatMulPlan& plan);

  Device device_;
  std::string machine_;
  GemmCache cache_;
  std::unique_ptr<std::remove_pointer_t<cublasLtHandle_t>, BlasLtRelease> library_;
  Memory workspace_;
  void* last_stream_ = nullptr;
  std::mutex mutex_;
  int generation_ = 0;
  std::unordered_map<MatMulShape, Decided, MatMulHash> decided_;
};

}  // namespace trireme::ops::cuda
