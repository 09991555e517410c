#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/ops/choice_table.h"
#include "model/ops/cpu/gemm_library.h"
#include "model/ops/cpu/matmul.h"
#include "model/ops/gemm_cache.h"

namespace trireme::ops::cpu {

// Runs every matrix product of a process by the library that is fastest for its
// shape. A shape's first product decides: what the run was given (`use`), else what
// this user's cache knows, else all libraries are timed on the very operands and the
// cache is told. Same thread count and same choice give the same bits.
//
// There is one engine in a process, as the compiled kernels, the processor's timings
// and the libraries themselves are the process's. Products run one at a time,
// each on all threads.
class GemmEngine {
 public:
  // Timings go to and come from `cache_folder`; an empty path keeps none.
  explicit GemmEngine(std::filesystem::path cache_folder);
  static GemmEngine& instance();  // with the user's cache folder

  void run(const MatMul& product);

  // From now on one library wherever it can; nothing is measured.
  void fix(GemmLibrary library);
  // From now on these choices, before the cache's and before any measurement.
  void use(const ChoiceTable& choices);
  // All choices made so far and those given, to be stored with the run.
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
