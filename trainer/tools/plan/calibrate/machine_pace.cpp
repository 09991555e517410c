#include "trainer/tools/plan/calibrate/machine_pace.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "model/ops/gemm.h"
#include "model/tensor/tensor.h"

namespace trireme {
namespace {

constexpr std::int64_t kSide = 192;  // fits the second-level cache of a core
constexpr std::size_t kBytes = 3 * kSide * kSide * sizeof(float);
// Of the median: a process that was stopped for a while did not become slower.
constexpr double kInterrupted = 0.5;

}  // namespace

MachinePace::MachinePace(Device device) : changes_(!device.is_cuda()), memory_(kBytes, Device{}) {}

double MachinePace::sample(double seconds) {
  if (!changes_) return 1;
  using Clock = std::chrono::steady_clock;
  const Tensor all{memory_.data(), DType::kF32, {3 * kSide, kSide}, Device{}};
  const Clock::time_point start = Clock::now();
  double passed = 0;
  int count = 0;
  for (; passed < seconds; ++count) {
    ops::gemm(stream_, all.row_slice(0, kSide), all.row_slice(kSide, kSide),
              all.row_slice(2 * kSide, kSide), {});
    passed = std::chrono::duration<double>(Clock::now() - start).count();
  }
  return count / passed;
}

double MachinePace::mean_over_first() const {
  std::vector<double> sorted = rates_;
  std::sort(sorted.begin(), sorted.end());
  const double least = kInterrupted * sorted[sorted.size() / 2];
  const auto begin = std::lower_bound(sorted.begin(), sorted.end(), least);
  double sum = 0;
  for (auto rate = begin; rate != sorted.end(); ++rate) sum += *rate;
  return sum / static_cast<double>(sorted.end() - begin) / first();
}

}  // namespace trireme
