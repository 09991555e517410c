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

// Runs a process's matrix products on one CUDA device. The algorithm of a class of shapes is chosen
// on its first product: from process_choices(), otherwise from the user's cache for this device,
// library and driver, otherwise by timing cuBLASLt's candidates on the actual operands. The same
// choice gives the same bits.
class GemmEngine {
 public:
  // `cache_folder` stores timings; empty: no cache.
  GemmEngine(Device device, const std::filesystem::path& cache_folder);

  // Enqueues the product. Products of different streams wait for each other, since they share one
  // workspace.
  void run(Stream& stream, const MatMul& product);

  // See ops::prepare_gemm.
  void prepare(Stream& stream, std::size_t most_added);
  void end_timing();

 private:
  struct Decided {
    MatMulPlan plan;
    cublasLtMatmulAlgo_t algorithm{};
  };
  void take_turn(Stream& stream);
  std::size_t most_spare() const;
  Decided decide(Stream& stream, const MatMul& product);
  std::string measured(Stream& stream, const MatMul& product, MatMulPlan& plan);
  cublasLtMatmulAlgo_t measure(Stream& stream, const MatMul& product, MatMulPlan& plan);

  Device device_;
  std::string machine_;
  GemmCache cache_;
  std::unique_ptr<std::remove_pointer_t<cublasLtHandle_t>, BlasLtRelease> library_;
  Memory workspace_;
  bool is_prepared_ = false;  // from then on allocates nothing
  Memory reserved_;           // for timings
  void* last_stream_ = nullptr;
  std::mutex mutex_;
  int generation_ = 0;
  std::unordered_map<MatMulShape, Decided, MatMulHash> decided_;
};

}  // namespace trireme::ops::cuda
