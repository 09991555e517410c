#include "model/ops/cuda/gemm_engine.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/base/log.h"
#include "model/device/cuda/check.h"
#include "model/device/event.h"
#include "model/ops/cuda/algorithm.h"
#include "model/ops/cuda/gemm.h"

namespace trireme::ops::cuda {
namespace {

constexpr std::size_t kMostDecided = 8192;
constexpr int kCandidates = 8;
constexpr int kRounds = 5;
constexpr std::size_t kSpareBytes = std::size_t{1} << 30;

std::string machine_of(Device device) {
  return say(kMachinePrefix, properties_of(device).name, ", cuBLASLt ", cublasLtGetVersion());
}

}  // namespace

GemmEngine::GemmEngine(Device device, const std::filesystem::path& cache_folder)
    : device_(device),
      machine_(machine_of(device)),
      cache_(cache_folder, say(machine_, ", driver ", cuda_versions().driver), is_algorithm) {
  trireme::cuda::use_device(device.index);
  cublasLtHandle_t library = nullptr;
  check(cublasLtCreate(&library), "cublasLtCreate");
  library_.reset(library);
  workspace_ = Memory(kGemmWorkspaceBytes, device);
}

void GemmEngine::take_turn(Stream& stream) {
  trireme::cuda::use_device(device_.index);
  if (last_stream_ == stream.handle()) return;
  trireme::cuda::check(cudaDeviceSynchronize(), device_.index, "cudaDeviceSynchronize");
  last_stream_ = stream.handle();
}

void GemmEngine::prepare(Stream& stream, std::size_t most_added) {
  const std::lock_guard guard(mutex_);
  take_turn(stream);
  if (std::exchange(is_prepared_, true)) return;
  if (most_added <= most_spare()) reserved_ = Memory(most_added, device_);
}

std::size_t GemmEngine::most_spare() const {
  return std::min(kSpareBytes, properties_of(device_).free_bytes / 2);
}

void GemmEngine::end_timing() {
  const std::lock_guard guard(mutex_);
  reserved_ = {};
}

void GemmEngine::run(Stream& stream, const MatMul& product) {
  const std::lock_guard guard(mutex_);
  take_turn(stream);
  if (const int now = process_choices().generation(); now != generation_) {
    decided_.clear();
    generation_ = now;
  }
  auto found = decided_.find(product.shape);
  if (found == decided_.end()) {
    if (decided_.size() >= kMostDecided) decided_.clear();
    found = decided_.emplace(product.shape, decide(stream, product)).first;
  }
  found->second.plan.run(library_.get(), product, product.c, found->second.algorithm,
                         workspace_.data(), workspace_.bytes(), trireme::cuda::queue_of(stream));
}

GemmEngine::Decided GemmEngine::decide(Stream& stream, const MatMul& product) {
  Decided decided{MatMulPlan(product.shape), {}};
  const std::string key = choice_key(product.shape);
  std::optional<std::string> way = process_choices().find(machine_, key);
  if (!way) way = cache_.find(key);
  if (!way) way = cache_.settle(key, measured(stream, product, decided.plan));
  process_choices().set(machine_, key, *way);
  const std::optional<Algorithm> known = algorithm_named(*way);
  require(known.has_value(), "cuBLASLt has no algorithm ", *way);
  std::copy(known->begin(), known->end(), decided.algorithm.data);
  if (decided.plan.can_use(library_.get(), decided.algorithm, workspace_.bytes())) return decided;
  // The algorithm of a similar shape that does not support this one; the library's first proposal
  // is deterministic.
  const auto proposed = decided.plan.candidates(library_.get(), workspace_.bytes(), 1);
  if (proposed.empty()) throw EnvironmentError(say("cuBLASLt has no algorithm for ", key));
  decided.algorithm = proposed.front().algorithm;
  return decided;
}

std::string GemmEngine::measured(Stream& stream, const MatMul& product, MatMulPlan& plan) {
  const cublasLtMatmulAlgo_t fastest = measure(stream, product, plan);
  Algorithm words{};
  std::copy(std::begin(fastest.data), std::end(fastest.data), words.begin());
  return text_of(words);
}

// Timed on the operands themselves. A replaced result is computed again; an accumulated one must
// not be added to twice, so its timings are written elsewhere. If that does not fit, the library's
// first proposal is used.
cublasLtMatmulAlgo_t GemmEngine::measure(Stream& stream, const MatMul& product, MatMulPlan& plan) {
  const auto candidates = plan.candidates(library_.get(), workspace_.bytes(), kCandidates);
  if (candidates.empty()) {
    throw EnvironmentError(say("cuBLASLt has no algorithm for ", choice_key(product.shape)));
  }
  Memory spare;
  std::byte* out = product.c;
  if (product.shape.accumulate == Accumulate::kAdd) {
    const std::size_t bytes =
        static_cast<std::size_t>(product.shape.m * product.shape.n) * size_of(product.shape.out);
    if (bytes > (is_prepared_ ? reserved_.bytes() : most_spare()))
      return candidates.front().algorithm;
    if (!is_prepared_) spare = Memory(bytes, device_);
    out = is_prepared_ ? reserved_.data() : spare.data();
  }
  const auto run = [&](const MatMulPlan::Candidate& candidate) {
    plan.run(library_.get(), product, out, candidate.algorithm, workspace_.data(),
             workspace_.bytes(), trireme::cuda::queue_of(stream));
  };
  Event start(device_, Event::Use::kTiming), end(device_, Event::Use::kTiming);
  double least = 0;
  std::optional<cublasLtMatmulAlgo_t> best;
  std::string why;
  for (const MatMulPlan::Candidate& candidate : candidates) {
    try {
      run(candidate);  // loads the kernel
    } catch (const EnvironmentError& error) {
      why = error.what();
      log_warning("matrix product {}: an algorithm that cuBLASLt proposes is left out: {}",
                  choice_key(product.shape), why);
      continue;
    }
    start.record(stream);
    for (int round = 0; round < kRounds; ++round) run(candidate);
    end.record(stream);
    end.synchronize();
    const double milliseconds = end.milliseconds_since(start);
    if (best && milliseconds >= least) continue;
    least = milliseconds;
    best = candidate.algorithm;
  }
  if (best) return *best;
  throw EnvironmentError(
      say("cuBLASLt has no algorithm that works for ", choice_key(product.shape), ": ", why));
}

}  // namespace trireme::ops::cuda
