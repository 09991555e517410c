#include "model/ops/cpu/gemm_engine.h"

#include <omp.h>

#include <algorithm>
#include <utility>

#include "model/base/error.h"
#include "model/device/cpu/processor.h"
#include "model/device/memory.h"
#include "model/ops/cpu/matmul_onednn.h"
#include "model/ops/cpu/matmul_openblas.h"
#include "model/ops/cpu/matmul_own.h"

namespace trireme::ops::cpu {
namespace {

constexpr std::size_t kMostDecided = 8192;
// A timing is repeated as often as fits into this time.
constexpr int kMostRounds = 8;
constexpr double kRepeating = 0.2;
// Memory that timing may use to protect an accumulated result.
constexpr std::int64_t kSpareBytes = std::int64_t{32} << 20;

}  // namespace

GemmEngine::GemmEngine(std::filesystem::path cache_folder)
    : cache_folder_(std::move(cache_folder)) {
  libraries_[GemmLibrary::kOpenBlas] = std::make_unique<OpenBlas>();
  libraries_[GemmLibrary::kOneDnn] = std::make_unique<OneDnn>();
  libraries_[GemmLibrary::kOwn] = std::make_unique<OwnMatMul>();
}

GemmEngine& GemmEngine::instance() {
  static GemmEngine engine(GemmCache::user_folder());
  return engine;
}

void GemmEngine::fix(GemmLibrary library) {
  const std::lock_guard guard(mutex_);
  fixed_ = library;
  decided_.clear();
}

void GemmEngine::use(const ChoiceTable& choices) {
  const std::lock_guard guard(mutex_);
  ChoiceTable merged = choices;
  merged.merge(choices_);
  choices_ = std::move(merged);
  decided_.clear();
}

ChoiceTable GemmEngine::choices() const {
  const std::lock_guard guard(mutex_);
  return choices_;
}

void GemmEngine::run(const MatMul& given) {
  const std::lock_guard guard(mutex_);
  require(!omp_in_parallel(), "a matrix product was called inside a parallel region");
  MatMul product = given;
  product.shape.threads = omp_get_max_threads();
  auto found = decided_.find(product.shape);
  if (found == decided_.end()) {
    if (decided_.size() >= kMostDecided) decided_.clear();
    found = decided_.emplace(product.shape, choose(product)).first;
  }
  libraries_.at(found->second)->run(product);
}

void GemmEngine::run_grouped(std::vector<MatMul> products) {
  if (products.empty()) return;
  const std::lock_guard guard(mutex_);
  require(!omp_in_parallel(), "matrix products were called inside a parallel region");
  for (MatMul& product : products) product.shape.threads = omp_get_max_threads();
  for (const GemmLibrary library :
       {GemmLibrary::kOwn, GemmLibrary::kOneDnn, GemmLibrary::kOpenBlas}) {
    if (!libraries_.at(library)->takes(products.front().shape)) continue;
    return libraries_.at(library)->run_grouped(products);
  }
}

GemmLibrary GemmEngine::choose(const MatMul& product) {
  std::vector<GemmLibrary> candidates;
  for (const auto& [library, multiplier] : libraries_)
    if (multiplier->takes(product.shape)) candidates.push_back(library);
  if (candidates.size() == 1) return candidates.front();
  if (fixed_) {
    const bool can = std::ranges::find(candidates, *fixed_) != candidates.end();
    return can ? *fixed_ : GemmLibrary::kOpenBlas;
  }
  const std::string machine = this->machine(product.shape.threads);
  const std::string key = choice_key(product.shape);
  std::optional<std::string> way = choices_.find(machine, key);
  if (!way) way = cache(machine).find(key);
  if (!way) way = cache(machine).settle(key, name_of(measure(product, candidates)));
  choices_.set(machine, key, *way);
  const std::optional<GemmLibrary> library = library_named(*way);
  require(library.has_value(), "unknown library ", *way);
  return *library;
}

std::string GemmEngine::machine(int threads) const {
  const auto& [name, stepping] = trireme::cpu::processor();
  std::string text = stepping.empty() ? name : name + " " + stepping;
  for (const auto& [library, multiplier] : libraries_) text += ", " + multiplier->name();
  return text + ", threads " + std::to_string(threads);
}

GemmCache& GemmEngine::cache(const std::string& machine) {
  return caches_.try_emplace(machine, cache_folder_, machine, is_library).first->second;
}

// Timed on the operands themselves, for their size and location. A replaced result is computed
// again; an accumulated one must not be added to twice, so a copy of as many rows as fit in memory
// is timed.
GemmLibrary GemmEngine::measure(const MatMul& given, const std::vector<GemmLibrary>& candidates) {
  MatMul product = given;
  Memory spare;
  if (given.shape.accumulate == Accumulate::kAdd) {
    const std::int64_t row = given.shape.n * static_cast<std::int64_t>(size_of(given.shape.out));
    product.shape.m = std::clamp<std::int64_t>(kSpareBytes / row, 1, given.shape.m);
    spare = Memory(static_cast<std::size_t>(product.shape.m * row), Device{});
    product.c = spare.data();
  }
  // Alternating, so that all libraries see the same load on the machine. The first calls also
  // compile kernels and touch new memory; then the minimum counts.
  std::vector<double> best;
  double round_takes = 0;
  for (const GemmLibrary library : candidates) {
    best.push_back(seconds(library, product));
    round_takes += best.back();
  }
  const int rounds = static_cast<int>(std::clamp<double>(kRepeating / round_takes, 1, kMostRounds));
  for (int round = 0; round < rounds; ++round)
    for (std::size_t i = 0; i < candidates.size(); ++i)
      best[i] = std::min(best[i], seconds(candidates[i], product));
  return candidates[static_cast<std::size_t>(std::ranges::min_element(best) - best.begin())];
}

// CPU time of all threads, which other programs on the machine affect far less than elapsed time.
// Threads that wait for others spin, so waiting counts.
double GemmEngine::seconds(GemmLibrary library, const MatMul& product) {
  const int threads = product.shape.threads;
  const double start = trireme::cpu::processor_seconds(threads);
  libraries_.at(library)->run(product);
  return (trireme::cpu::processor_seconds(threads) - start) / threads;
}

}  // namespace trireme::ops::cpu
