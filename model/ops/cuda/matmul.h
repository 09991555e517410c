#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/ops/accumulate.h"
#include "model/ops/cuda/blaslt.h"
#include "model/tensor/dtype.h"
#include "model/tensor/float8.h"

namespace trireme::ops::cuda {

// A matrix product: c [m, n] = [addend +] or += a [m, k] b [k, n], row-major and dense. Contains
// everything an algorithm depends on.
struct MatMulShape {
  bool transpose_a = false;
  bool transpose_b = false;
  Accumulate accumulate = Accumulate::kReplace;
  bool bias = false;
  bool addend = false;  // only with kReplace
  DType in = DType::kF32;
  DType out = DType::kF32;
  std::int64_t m = 0, n = 0, k = 0;
  int alignment = 16;  // common alignment of all addresses in bytes, at most 16
  // Formats of float8 operands; `in` is then the bias's dtype. cuBLASLt supports only nt.
  std::optional<Float8Format> float8_a = {}, float8_b = {};
  bool operator==(const MatMulShape&) const = default;
};

struct MatMulHash {
  std::size_t operator()(const MatMulShape& s) const;
};

// Key of a class of shapes that share a choice: "float32 nt 256 2560 768 add".
std::string choice_key(const MatMulShape& shape);

struct MatMul {
  MatMulShape shape;
  const std::byte* a = nullptr;
  const std::byte* b = nullptr;
  const std::byte* bias = nullptr;     // [n] in the operands' dtype, or null
  const std::byte* addend = nullptr;   // [m, n] in c's dtype, or null
  const std::byte* a_scale = nullptr;  // float32 on the device; float8 only
  const std::byte* b_scale = nullptr;  // float32 on the device; float8 only
  std::byte* c = nullptr;
};

// cuBLASLt's descriptors of one shape. The library is column-major, where a row-major matrix is its
// transpose: it computes c' = b' a', with swapped operands. float32 is multiplied in float32 (no
// TF32); bfloat16 and float16 accumulate in float32.
class MatMulPlan {
 public:
  explicit MatMulPlan(const MatMulShape& shape);

  struct Candidate {
    cublasLtMatmulAlgo_t algorithm{};
    std::size_t workspace_bytes = 0;
  };
  // At most `most` algorithms, the library's heuristically fastest first; only deterministic ones.
  std::vector<Candidate> candidates(cublasLtHandle_t library, std::size_t workspace_bytes,
                                    int most) const;
  // Whether `algorithm` supports this shape within the workspace.
  bool can_use(cublasLtHandle_t library, const cublasLtMatmulAlgo_t& algorithm,
               std::size_t workspace_bytes) const;
  // Enqueues the product. What it adds to is read from product.addend or product.c, the result is
  // written to `out`, which may be product.c.
  void run(cublasLtHandle_t library, const MatMul& product, std::byte* out,
           const cublasLtMatmulAlgo_t& algorithm, std::byte* workspace, std::size_t workspace_bytes,
           cudaStream_t stream);

 private:
  template <class Handle>
  using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, BlasLtRelease>;

  MatMulShape shape_;
  Owned<cublasLtMatmulDesc_t> product_;
  Owned<cublasLtMatrixLayout_t> left_, right_, result_;  // b', a' and c'
};

}  // namespace trireme::ops::cuda
