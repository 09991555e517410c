#include "trainer/engine/matrix_peak.h"

#include <algorithm>
#include <chrono>

#include "model/ops/gemm.h"
#include "model/tensor/arena.h"

namespace trireme {

double measured_matrix_peak(DType compute) {
  constexpr std::int64_t kSide = 1024;
  constexpr double kSeconds = 0.25;
  Arena arena(3 * kSide * kSide * sizeof(double) + 3 * Arena::kAlignment);
  Stream stream;
  const Tensor a = arena.take({kSide, kSide}, compute);
  const Tensor b = arena.take({kSide, kSide}, compute);
  const Tensor c = arena.take({kSide, kSide}, compute);
  using Clock = std::chrono::steady_clock;
  const auto seconds_since = [](Clock::time_point from) {
    return std::chrono::duration<double>(Clock::now() - from).count();
  };
  ops::gemm(stream, c, a, b, {});
  double best = 0;
  const auto start = Clock::now();
  do {
    const auto from = Clock::now();
    ops::gemm(stream, c, a, b, {});
    stream.synchronize();
    best = std::max(best, 2.0 * kSide * kSide * kSide / seconds_since(from));
  } while (seconds_since(start) < kSeconds);
  return best;
}

}  // namespace trireme
