#include "model/ops/cpu/gemm_engine.h"

#include <omp.h>
#include <time.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "model/base/error.h"
#include "model/device/memory.h"

namespace trireme::ops::cpu {
namespace {

constexpr std::size_t kMostDecided = 8192;
constexpr int kRounds = 3;
constexpr double kWorthRepeating = 0.060;  // seconds a round may take to be made kRounds times
// What a measurement may take to keep an accumulated result from harm.
constexpr std::int64_t kSpareBytes = std::int64_t{32} << 20;

// "AMD EPYC 25.17.1" from the first processor of /proc/cpuinfo.
std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  std::string line, model, numbers;
  while (std::getline(info, line) && !line.empty()) {
    const std::size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    const std::string key = line.substr(0, line.find('\t')), value = line.substr(colon + 2);
    if (key == "model name") model = value;
    if (key == "cpu family" || key == "model" || key == "stepping")
      numbers += (numbers.empty() ? " " : ".") + value;
  }
  return model.empty() ? "unknown processor" : model + numbers;
}

std::string machine_of(int threads) {
  static const std::string kMachine =
      processor() + ", " + OpenBlas::name() + ", " + OneDnn::name() + ", threads ";
  return kMachine + std::to_string(threads);
}

}  // namespace

GemmEngine::GemmEngine(std::filesystem::path cache_folder)
    : cache_folder_(std::move(cache_folder)) {}

GemmEngine& GemmEngine::instance() {
  static GemmEngine engine(GemmCache::user_folder());
  return engine;
}

void GemmEngine::fix(GemmLibrary library) {
  const std::lock_guard guard(mutex_);
  fixed_ = library;
  decided_.clear();
}

void GemmEngine::use(const GemmChoices& choices) {
  const std::lock_guard guard(mutex_);
  GemmChoices merged = choices;
  merged.merge(choices_);
  choices_ = std::move(merged);
  decided_.clear();
}

GemmChoices GemmEngine::choices() const {
  const std::lock_guard guard(mutex_);
  return choices_;
}

void GemmEngine::run(const MatMul& given) {
  const std::lock_guard guard(mutex_);
  require(!omp_in_parallel(), "a matrix product was asked for inside a parallel region");
  MatMul product = given;
  product.shape.threads = omp_get_max_threads();
  auto found = decided_.find(product.shape);
  if (found == decided_.end()) {
    if (decided_.size() >= kMostDecided) decided_.clear();
    found = decided_.emplace(product.shape, choose(product)).first;
  }
  run_by(found->second, product);
}

GemmLibrary GemmEngine::choose(const MatMul& product) {
  if (!OneDnn::supports(product.shape.in)) return GemmLibrary::kOpenBlas;
  if (fixed_) return *fixed_;
  const std::string machine = machine_of(product.shape.threads);
  const std::string key = choice_key(product.shape);
  if (const auto chosen = choices_.find(machine, key)) return *chosen;
  std::optional<GemmLibrary> library = cache(machine).find(key);
  if (!library) library = cache(machine).settle(key, measure(product));
  choices_.set(machine, key, *library);
  return *library;
}

GemmCache& GemmEngine::cache(const std::string& machine) {
  return caches_.try_emplace(machine, cache_folder_, machine).first->second;
}

void GemmEngine::run_by(GemmLibrary library, const MatMul& product) {
  if (library == GemmLibrary::kOpenBlas)
    openblas_.run(product);
  else
    onednn_.run(product);
}

// On the operands themselves, so that the timing sees their size and place. What
// is replaced will be computed again; a sum must not be added to twice, so as
// many of its rows as are worth the memory are timed elsewhere.
GemmLibrary GemmEngine::measure(const MatMul& given) {
  MatMul product = given;
  Memory spare;
  if (given.shape.into == Into::kAdd) {
    const std::int64_t row = given.shape.n * static_cast<std::int64_t>(size_of(given.shape.out));
    product.shape.m = std::clamp<std::int64_t>(kSpareBytes / row, 1, given.shape.m);
    spare = Memory(static_cast<std::size_t>(product.shape.m * row), Device{});
    product.c = spare.data();
  }
  // In turns, so that both see the same neighbours on the machine. The first calls
  // also compile kernels and touch fresh memory; then the best one counts.
  double openblas = seconds(GemmLibrary::kOpenBlas, product);
  double onednn = seconds(GemmLibrary::kOneDnn, product);
  const int rounds = openblas + onednn < kWorthRepeating ? kRounds : 1;
  for (int round = 0; round < rounds; ++round) {
    openblas = std::min(openblas, seconds(GemmLibrary::kOpenBlas, product));
    onednn = std::min(onednn, seconds(GemmLibrary::kOneDnn, product));
  }
  return openblas < onednn ? GemmLibrary::kOpenBlas : GemmLibrary::kOneDnn;
}

// Of all threads' processor time, which other programs on the machine lengthen far
// less than they do the time on the clock. A thread that waits for the others spins.
double GemmEngine::seconds(GemmLibrary library, const MatMul& product) {
  const auto now = [] {
    timespec time{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double start = now();
  run_by(library, product);
  return (now() - start) / product.shape.threads;
}

}  // namespace trireme::ops::cpu
