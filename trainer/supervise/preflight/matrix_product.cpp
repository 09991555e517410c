#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "model/base/error.h"
#include "model/base/median.h"
#include "model/device/cpu/threads.h"
#include "model/device/devices.h"
#include "model/ops/gemm.h"
#include "model/tensor/arena.h"
#include "model/tensor/host_mirror.h"
#include "model/tensor/host_tensor.h"
#include "trainer/engine/engine_spec.h"
#include "trainer/supervise/preflight/check.h"
#include "trainer/telemetry/clock.h"

namespace trireme::preflight {
namespace {

// Small integers, exact in every dtype, with period kPeriod: the product is exact in float32 in any
// summation order, and periodic too.
constexpr std::int64_t kPeriod = 7;
double left(std::int64_t row, std::int64_t k) {
  return static_cast<double>((3 * row + 5 * k) % kPeriod) - 3;
}
double right(std::int64_t k, std::int64_t column) {
  return static_cast<double>((2 * k + k / kPeriod + 4 * column) % kPeriod) - 2;
}

void store(const Tensor& tensor, std::int64_t index, double value) {
  switch (tensor.dtype) {
    case DType::kBf16:
      reinterpret_cast<Bf16*>(tensor.data)[index] = Bf16(static_cast<float>(value));
      break;
    case DType::kF16:
      reinterpret_cast<std::uint16_t*>(tensor.data)[index] = half_bits(static_cast<float>(value));
      break;
    default:
      reinterpret_cast<float*>(tensor.data)[index] = static_cast<float>(value);
  }
}

class KnownProduct {
 public:
  KnownProduct(std::int64_t side, DType compute, Device device)
      : side_(side),
        arena_(bytes_of(side, compute), device),
        stream_(device),
        a_(stream_, arena_.take({side, side}, compute)),
        b_(stream_, arena_.take({side, side}, compute)),
        c_(stream_, arena_.take({side, side}, DType::kF32)) {
    for (std::int64_t i = 0; i < side; ++i) {
      for (std::int64_t j = 0; j < side; ++j) {
        store(a_.host(), i * side + j, left(i, j));
        store(b_.host(), i * side + j, right(i, j));
      }
    }
    a_.upload(stream_);
    b_.upload(stream_);
  }
  void make() {
    ops::gemm(stream_, c_.tensor(), a_.tensor(), b_.tensor(), {});
    stream_.synchronize();
  }
  double flop() const { return 2 * std::pow(static_cast<double>(side_), 3); }
  // Number of elements of the last result that are wrong.
  std::int64_t wrong() {
    c_.download(stream_);
    stream_.synchronize();
    std::array<std::array<float, kPeriod>, kPeriod> must{};
    for (std::int64_t i = 0; i < kPeriod; ++i) {
      for (std::int64_t j = 0; j < kPeriod; ++j) {
        double sum = 0;
        for (std::int64_t k = 0; k < side_; ++k) sum += left(i, k) * right(k, j);
        must[i][j] = static_cast<float>(sum);
      }
    }
    const auto* result = reinterpret_cast<const float*>(c_.host().data);
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < side_; ++i) {
      const auto& row = must[i % kPeriod];
      for (std::int64_t j = 0; j < side_; ++j) {
        wrong += result[i * side_ + j] != row[j % kPeriod] ? 1 : 0;
      }
    }
    return wrong;
  }

  static std::size_t bytes_of(std::int64_t side, DType compute) {
    return static_cast<std::size_t>(side * side) * (2 * size_of(compute) + 4) +
           3 * Arena::kAlignment;
  }

 private:
  std::int64_t side_;
  Arena arena_;
  Stream stream_;
  HostMirror a_, b_, c_;
};

// Large enough for the device's peak rate. On CPU cores 0.1 to 1 ms of work, whatever their number:
// ranks that share a core then take many turns in a short time, and get equal shares.
std::int64_t side_for(DType compute, Device device, double seconds) {
  if (!device.is_cuda()) return 64 * std::llround(4 * std::cbrt(cpu::threads()));
  const bool quick = seconds < 0.1;
  std::int64_t side = quick ? 2048 : 4096;
  while (side > 512 &&
         KnownProduct::bytes_of(side, compute) > properties_of(device).free_bytes / 4) {
    side /= 2;
  }
  return side;
}

std::vector<double> of_all(Communicator& all, double own) {
  std::vector<double> values(all.size());
  values[all.rank()] = own;
  Stream stream;
  const Tensor whole = host_tensor(std::span(values));
  all.all_gather(stream, whole, whole.slice(all.rank(), 1));
  return values;
}

// A slow rank is measured again, up to kMaxTries times, with all other ranks computing too: another
// process may use its cores for some seconds, and a healthy rank is fast at least once. The rate
// counts all products of an attempt, so that occasional delays count. A rank that fails still takes
// part in the collectives until all are done.
Figures measure_products(DType compute, Device device, double seconds, Communicator& all) {
  constexpr int kMaxTries = 12;
  std::optional<KnownProduct> product;
  std::optional<EnvironmentError> failure;
  std::int64_t side = 0, wrong = 0, times = 0;
  double flops = 0;
  const auto attempt = [&](const auto& work) {
    try {
      if (!failure) work();
    } catch (const EnvironmentError& error) {
      failure = error;
    }
  };
  attempt([&] {
    side = side_for(compute, device, seconds);
    product.emplace(side, compute, device);
    product->make();  // selects the algorithm
    wrong = product->wrong();
  });
  Stream stream;
  all.barrier(stream);  // otherwise the first rank would compute alone
  for (int tries = 0; tries < kMaxTries; ++tries) {
    attempt([&] {
      const double start = seconds_now();
      std::int64_t made = 0;
      double taken = 0;
      do {
        product->make();
        ++made;
        taken = seconds_now() - start;
      } while (taken < seconds);
      flops = std::max(flops, static_cast<double>(made) * product->flop() / taken);
      times += made;
    });
    if (below_median(of_all(all, flops), kSlow).empty()) break;
  }
  attempt([&] { wrong = std::max(wrong, product->wrong()); });
  if (failure) throw EnvironmentError(*failure);
  if (wrong > 0) {
    throw EnvironmentError(
        fmt::format("{} of {} elements of a reference matmul are wrong: do not use this device",
                    wrong, side * side));
  }
  return {{"flops", flops}, {"side", side}, {"times", times}};
}

Judgment judge_products(const std::vector<Figures>& by_rank) {
  const std::vector<double> flops = numbers_of(by_rank, "flops");
  const double middle = median(flops);
  Judgment judgment;
  for (const int rank : below_median(flops, kSlow)) {
    judgment.faults.push_back({{rank},
                               fmt::format("{:.1f} GFLOP/s, less than {} of the median {:.1f}",
                                           flops[rank] * 1e-9, kSlow, middle * 1e-9)});
  }
  const auto [least, most] = std::minmax_element(flops.begin(), flops.end());
  judgment.text = fmt::format("correct bits; median {:.1f} GFLOP/s, range {:.1f} to {:.1f}",
                              middle * 1e-9, *least * 1e-9, *most * 1e-9);
  return judgment;
}

}  // namespace

Check matrix_product(const std::string& dtype, Device device, double seconds, Communicator& all) {
  const DType compute = compute_dtype(dtype);
  return {"matrix product", [=, &all] { return measure_products(compute, device, seconds, all); },
          judge_products};
}

}  // namespace trireme::preflight
