#include "trainer/engine/matrix_peak.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "model/ops/gemm.h"
#include "model/tensor/arena.h"

namespace trireme {

double measured_matrix_peak(DType compute, Device device) {
  // Large enough for the device to be at its best, small enough to be quick.
  const std::int64_t side = device.is_cuda() ? 8192 : 1024;
  constexpr double kSeconds = 0.25;
  Arena arena(3 * static_cast<std::size_t>(side * side) * size_of(compute) + 3 * Arena::kAlignment,
              device);
  Stream stream(device);
  const Tensor a = arena.take({side, side}, compute);
  const Tensor b = arena.take({side, side}, compute);
  const Tensor c = arena.take({side, side}, compute);
  using Clock = std::chrono::steady_clock;
  const auto seconds_since = [](Clock::time_point from) {
    return std::chrono::duration<double>(Clock::now() - from).count();
  };
  const double flops = 2 * std::pow(static_cast<double>(side), 3);
  ops::gemm(stream, c, a, b, {});
  stream.synchronize();
  double best = 0;
  const auto start = Clock::now();
  do {
    const auto from = Clock::now();
    ops::gemm(stream, c, a, b, {});
    stream.synchronize();
    best = std::max(best, flops / seconds_since(from));
  } while (seconds_since(start) < kSeconds);
  return best;
}

}  // namespace trireme
