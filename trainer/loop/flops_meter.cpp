#include "trainer/loop/flops_meter.h"

#include <algorithm>

#include "model/ops/gemm_cache.h"
#include "model/tensor/host_tensor.h"
#include "trainer/engine/matrix_peak.h"

namespace trireme {
namespace {

double flops_of(const Tally& tally) {
  return tally.matmul + tally.attention_causal;
}

}  // namespace

FlopsMeter::FlopsMeter(const EnginePlan& plan, Communicator& ranks, DType compute, Device device)
    : ranks_(ranks.size()), compute_(compute), device_(device) {
  follow(plan, ranks);
}

void FlopsMeter::follow(const EnginePlan& plan, Communicator& ranks) {
  issued_here_ = flops_of(plan.issued);
  double sums[] = {flops_of(plan.useful), issued_here_};
  Stream stream;
  ranks.all_reduce(stream, host_tensor(std::span(sums)), Reduce::kSum);
  useful_ = sums[0];
  issued_ = sums[1];
}

void FlopsMeter::measure_peak(int threads) {
  peak_ = best_matrix_peak(compute_, device_, threads, ops::GemmCache::user_folder());
}

FlopsMeter::Utilization FlopsMeter::utilization(double seconds, double fraction) {
  const double peak = peak_of_step(seconds, fraction) * seconds * ranks_;
  return {.mfu = fraction * useful_ / peak, .hfu = fraction * issued_ / peak};
}

// A step faster than the peak shows that other processes used the cores during its measurement.
double FlopsMeter::peak_of_step(double seconds, double fraction) {
  constexpr int kMaxRepeated = 5;
  const double issued = fraction * issued_here_;
  if (issued > peak_ * seconds && repeated_ < kMaxRepeated) {
    ++repeated_;
    peak_ = std::max(peak_, measured_matrix_peak(compute_, device_));
  }
  return std::max(peak_, issued / seconds);
}

}  // namespace trireme
