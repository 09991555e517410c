#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "model/device/devices.h"
#include "model/device/memory.h"
#include "model/device/stream.h"
#include "model/ops/cuda/matmul.h"

namespace trireme::ops::cuda {

// Runs a process's matrix products on one CUDA device. A class of shapes gets its algorithm
// with its first product: the one process_algorithms() has, else the fastest of those cuBLASLt
// proposes, timed on the very operands. The same choice gives the same bits.
class GemmEngine {
 public:
  explicit GemmEngine(Device device);

  // Queues the product. Products of several streams wait for each other: there is one
  // workspace.
  void run(Stream& stream, const MatMul& product);

 private:
  struct Decided {
    MatMulPlan plan;
    cublasLtMatmulAlgo_t algorithm{};
  };
  Decided decide(Stream& stream, const MatMul& product);
  cublasLtMatmulAlgo_t measure(Stream& stream, const MatMul& product, MatMulPlan& plan);

  Device device_;
  std::string machine_;
  std::unique_ptr<std::remove_pointer_t<cublasLtHandle_t>, BlasLtRelease> library_;
  Memory workspace_;
  void* last_stream_ = nullptr;
  std::mutex mutex_;
  int generation_ = 0;
  std::unordered_map<MatMulShape, Decided, MatMulHash> decided_;
};

}  // namespace trireme::ops::cuda
