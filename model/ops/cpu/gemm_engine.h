#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/ops/choice_table.h"
#include "model/ops/cpu/gemm_library.h"
#include "model/ops/cpu/matmul.h"
#include "model/ops/gemm_cache.h"

namespace trireme::ops::cpu {

// Runs every matrix product of a process with the library that is fastest for its shape. The
// library is chosen on a shape's first product: from the run's choices (`use`), otherwise from the
// user's cache, otherwise by timing all libraries on the actual operands, which updates the cache.
// The same thread count and choice give the same bits.
//
// There is one engine per process, since compiled kernels, timings and the libraries themselves are
// per process. Products run one at a time, each on all threads.
class GemmEngine {
 public:
  // `cache_folder` stores timings; empty: no cache.
  explicit GemmEngine(std::filesystem::path cache_folder);
  static GemmEngine& instance();  // with the user's cache folder

  void run(const MatMul& product);
  // See MatMulLibrary::run_grouped. Nothing is timed: by our own kernels in float32, otherwise by
  // oneDNN where it has kernels for the dtype.
  void run_grouped(std::vector<MatMul> products);

  // From now on uses one library wherever it supports the shape; nothing is timed.
  void fix(GemmLibrary library);
  // From now on these choices take precedence over the cache and over timing.
  void use(const ChoiceTable& choices);
  // All choices, made here or given, to be stored with the run.
  ChoiceTable choices() const;

 private:
  GemmLibrary choose(const MatMul& product);
  GemmLibrary measure(const MatMul& product, const std::vector<GemmLibrary>& candidates);
  double seconds(GemmLibrary library, const MatMul& product);
  GemmCache& cache(const std::string& machine);
  std::string machine(int threads) const;

  std::filesystem::path cache_folder_;
  mutable std::mutex mutex_;
  std::optional<GemmLibrary> fixed_;
  ChoiceTable choices_;
  std::map<std::string, GemmCache> caches_;
  std::unordered_map<MatMulShape, GemmLibrary, MatMulHash> decided_;
  std::map<GemmLibrary, std::unique_ptr<MatMulLibrary>> libraries_;
};

}  // namespace trireme::ops::cpu
