#include "trainer/engine/matrix_peak.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/device/copy.h"
#include "model/device/cpu/processor.h"
#include "model/device/devices.h"
#include "model/ops/dispatch.h"
#include "model/ops/gemm.h"
#include "model/params/init.h"
#include "model/tensor/arena.h"
#include "trainer/engine/peak_cache.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point from) {
  return std::chrono::duration<double>(Clock::now() - from).count();
}

std::size_t bytes_of(std::int64_t side, DType compute) {
  return 3 * static_cast<std::size_t>(side * side) * size_of(compute) + 3 * Arena::kAlignment;
}

// A product of square matrices, after a first run that chose its algorithm.
class SquareProduct {
 public:
  SquareProduct(std::int64_t side, DType compute, Device device)
      : arena_(bytes_of(side, compute), device),
        stream_(device),
        a_(arena_.take({side, side}, compute)),
        b_(arena_.take({side, side}, compute)),
        c_(arena_.take({side, side}, compute)) {
    fill_normal(stream_, a_);
    fill_normal(stream_, b_);
    seconds();
  }
  double seconds() {
    const auto start = Clock::now();
    ops::gemm(stream_, c_, a_, b_, {});
    stream_.synchronize();
    return seconds_since(start);
  }

 private:
  Arena arena_;
  Stream stream_;
  Tensor a_, b_, c_;
};

// Large enough for the device to be at its best, small enough to be quick and to leave the
// device's memory to the run.
std::int64_t side_for(DType compute, Device device) {
  if (!device.is_cuda()) return 1024;
  constexpr std::int64_t kMost = 8192;
  constexpr double kLongEnough = 1e-3;
  std::int64_t side = 256;
  while (side < kMost && bytes_of(2 * side, compute) < properties_of(device).free_bytes / 2 &&
         SquareProduct(side, compute, device).seconds() < kLongEnough) {
    side *= 2;
  }
  return side;
}

}  // namespace

void fill_normal(Stream& stream, const Tensor& tensor) {
  constexpr std::int64_t kDistinct = std::int64_t{1} << 16;
  const std::int64_t count = std::min(tensor.count(), kDistinct);
  std::vector<float> numbers(static_cast<std::size_t>(count));
  ElementInit(Init::kNormal, 1, 0, "matrix peak").fill(0, numbers);
  with_float(tensor.dtype, [&](auto zero) {
    const std::vector<decltype(zero)> values(numbers.begin(), numbers.end());
    copy_bytes(stream, tensor.data, reinterpret_cast<const std::byte*>(values.data()),
               tensor.slice(0, count).bytes());
    stream.synchronize();
  });
  for (std::int64_t done = count; done < tensor.count(); done *= 2) {
    const Tensor next = tensor.slice(done, std::min(done, tensor.count() - done));
    copy_bytes(stream, next.data, tensor.data, next.bytes());
  }
}

double measured_matrix_peak(DType compute, Device device) {
  constexpr double kSeconds = 0.25;
  const std::int64_t side = side_for(compute, device);
  SquareProduct product(side, compute, device);
  double least = product.seconds();
  const auto start = Clock::now();
  while (seconds_since(start) < kSeconds) least = std::min(least, product.seconds());
  return 2 * std::pow(static_cast<double>(side), 3) / least;
}

double best_matrix_peak(DType compute, Device device, int threads,
                        const std::filesystem::path& folder) {
  const auto& [processor, stepping] = cpu::processor();
  const std::string key = device.is_cuda() ? say(properties_of(device).name, ", ", name_of(compute))
                                           : say(processor, " ", stepping, ", ", threads,
                                                 " threads, ", name_of(compute));
  return cached_peak(folder, key, [&] { return measured_matrix_peak(compute, device); });
}

}  // namespace trireme
