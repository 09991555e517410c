#include "trainer/tools/plan/calibrate/calibrate_compute.h"

#include <algorithm>
#include <cstring>

#include "model/base/median.h"
#include "model/device/copy.h"
#include "model/device/devices.h"
#include "model/ops/attention.h"
#include "model/ops/elementwise.h"
#include "model/ops/gemm.h"
#include "model/ops/grouped_gemm.h"
#include "model/tensor/host_mirror.h"
#include "trainer/engine/matrix_peak.h"
#include "trainer/tools/plan/estimate/op_time.h"

namespace trireme {
namespace {

constexpr double kFloat = 4;

DType stored(NumberFormat numbers) {
  return numbers == NumberFormat::kHalf ? DType::kBf16 : DType::kF32;
}

// Seconds per FLOP of a large operation, bounded below by a tenth of the best measured.
double main_factor(double factor, double best) {
  return std::max(factor, 0.1 / best);
}

}  // namespace

class ComputeCalibration::TensorRotation {
 public:
  // Positions and token ids are below `numbers_below`.
  TensorRotation(Stream& stream, Arena& arena, const TensorSpecs& specs, std::size_t spread,
                 std::int64_t numbers_below)
      : frame_(arena), numbers_below_(numbers_below) {
    std::size_t bytes = 0;
    for (const auto& [shape, dtype] : specs) {
      bytes += static_cast<std::size_t>(shape.count()) * size_of(dtype);
    }
    sets_.resize(std::clamp<std::size_t>(spread / bytes, 1, 32));
    for (std::vector<Tensor>& tensors : sets_) {
      for (const auto& [shape, dtype] : specs) {
        fill(stream, tensors.emplace_back(arena.take(shape, dtype)));
      }
    }
  }
  const std::vector<Tensor>& next() {
    turn_ = (turn_ + 1) % sets_.size();
    return sets_[turn_];
  }

 private:
  // A GPU multiplies equal values faster than those of a run: fewer bits flip.
  void fill(Stream& stream, const Tensor& tensor) const {
    constexpr int kTiny = 0x3C;  // as bytes, 0.01 in float32 and in bfloat16
    if (tensor.device.is_cuda() && (tensor.dtype == DType::kF32 || tensor.dtype == DType::kBf16)) {
      fill_normal(stream, tensor);
      return;
    }
    const HostMirror mirror(stream, tensor);
    const Tensor host = mirror.host();
    std::memset(host.data, kTiny, host.bytes());
    if (tensor.dtype == DType::kI32) {
      auto* const values = host.as<std::int32_t>();
      for (std::int64_t i = 0; i < host.count(); ++i) {
        values[i] = static_cast<std::int32_t>(i * 7919 % numbers_below_);
      }
    }
    mirror.upload(stream);
    stream.synchronize();
  }

  Arena::Frame frame_;
  std::int64_t numbers_below_;
  std::vector<std::vector<Tensor>> sets_;
  std::size_t turn_ = 0;
};

double ComputeCalibration::seconds(const TensorSpecs& specs, const Work& work, Stopwatch& by,
                                   Stopwatch& other) {
  TensorRotation rotation(stream_, arena_, specs, sizes_.spread, sizes_.numbers_below);
  other.sample_pace();
  return over_passes(by.alone([&] { work(stream_, rotation.next()); }));
}

double ComputeCalibration::over_passes(double seconds) {
  if (measured_ == seconds_.size()) seconds_.emplace_back();
  std::vector<double>& of_passes = seconds_[measured_++];
  of_passes.push_back(seconds);
  return median(of_passes);
}

double ComputeCalibration::matmul_seconds(NumberFormat numbers, const TensorSpecs& specs,
                                          const Work& work) {
  return numbers == NumberFormat::kHalf ? seconds(specs, work, half_stopwatch_, stopwatch_)
                                        : seconds(specs, work);
}

std::vector<PlannedOp> ComputeCalibration::recorded(const TensorSpecs& specs, const Work& work) {
  const Arena::Frame frame(arena_);
  std::vector<Tensor> tensors;
  for (const auto& [shape, dtype] : specs) tensors.push_back(arena_.take(shape, dtype));
  std::vector<PlannedOp> ops;
  Tally tally{.ops = &ops};
  Stream planning(stream_.device(), tally);
  work(planning, tensors);
  return ops;
}

// Bandwidth of a large addition, and the launch time of a small one.
void ComputeCalibration::memory(DeviceProfile& profile) {
  const auto sum = [&](std::int64_t count) {
    const std::pair<Shape, DType> one{{count}, DType::kF32};
    return seconds({one, one, one},
                   [](Stream& stream, const auto& t) { ops::add(stream, t[0], t[1], t[2]); });
  };
  const double much = sum(sizes_.much), little = sum(sizes_.little), least = sum(16);
  const auto most = static_cast<double>(sizes_.much), few = static_cast<double>(sizes_.little);
  profile.memory_bandwidth = 3 * kFloat * most / much;
  profile.streamed = 1;
  // Above this, other programs used the cores.
  constexpr double kMostLaunch = 50e-6;
  profile.launch = std::clamp(little - much * few / most, least, std::max(least, kMostLaunch));
}

namespace {

// Times of matmuls in one format, and the rate that fits them: memory traffic of the result, FLOPs,
// and FLOPs over each extent.
class ProductTimes {
 public:
  explicit ProductTimes(const DeviceProfile& profile) : profile_(profile) {}

  void add(const PlannedOp& op, double taken) {
    const double flops = op.flops * wave_slowdown(op, profile_.units);
    all_.push_back(
        {.seconds = taken,
         .known = profile_.launch + op.result_bytes / profile_.memory_bandwidth,
         .parts = {flops, flops / op.depth, flops * op.groups / op.rows, flops / op.columns}});
    best_ = std::max(best_, op.flops / taken);
  }
  double best() const { return best_; }  // FLOP/s
  MatmulEfficiency fit(double peak) const {
    const auto [flat, of_depth, of_rows, of_columns] = least_squares(all_);
    const double each = main_factor(flat, best_);
    return {.product = 1 / (each * peak),
            .half_depth = of_depth / each,
            .half_rows = of_rows / each,
            .half_columns = of_columns / each};
  }
  // Of a rate whose peak is set.
  void fit(ProductRate& rate) const {
    const MatmulEfficiency fitted = fit(rate.peak);
    rate.product = fitted.product;
    rate.half_depth = fitted.half_depth;
    rate.half_rows = fitted.half_rows;
    rate.half_columns = fitted.half_columns;
  }

 private:
  const DeviceProfile& profile_;
  std::vector<Measurement<4>> all_;
  double best_ = 0;
};

}  // namespace

void ComputeCalibration::products(DeviceProfile& profile, NumberFormat numbers) {
  const DType dtype = stored(numbers);
  ProductTimes times(profile), gradient_times(profile);
  const auto measure = [&](const CalibrationSizes::Product& s, const Shape& a, const Shape& b,
                           DType result, const ops::Gemm& how) {
    const TensorSpecs specs{{{s.rows, s.columns}, result}, {a, dtype}, {b, dtype}};
    const Work work = [&](Stream& stream, const auto& t) {
      ops::gemm(stream, t[0], t[1], t[2], how);
    };
    const double taken = matmul_seconds(numbers, specs, work);
    (how.transpose_a ? gradient_times : times).add(recorded(specs, work).front(), taken);
  };
  for (const CalibrationSizes::Product& s : sizes_.products) {
    const Shape a{s.rows, s.depth};
    measure(s, a, {s.columns, s.depth}, dtype, {.transpose_b = true});
    measure(s, a, {s.depth, s.columns}, dtype, {});
    measure(s, {s.depth, s.rows}, {s.depth, s.columns}, DType::kF32,
            {.transpose_a = true, .accumulate = ops::Accumulate::kAdd});
  }
  ProductRate& rate = profile.rates[static_cast<std::size_t>(numbers)];
  rate.peak = std::max(times.best(), gradient_times.best());
  times.fit(rate);
  rate.weight_gradient = gradient_times.fit(rate.peak);
}

// Rows as evenly divided as a router's load balancing makes them.
void ComputeCalibration::grouped_products(DeviceProfile& profile, NumberFormat numbers) {
  const DType dtype = stored(numbers);
  ProductTimes times(profile), gradient_times(profile);
  for (const auto& [groups, s] : sizes_.grouped) {
    const Arena::Frame frame(arena_);
    const Tensor starts = arena_.take({groups + 1}, DType::kI32);
    const HostMirror mirror(stream_, starts);
    for (std::int64_t group = 0; group <= groups; ++group) {
      mirror.host().as<std::int32_t>()[group] = static_cast<std::int32_t>(group * s.rows);
    }
    mirror.upload(stream_);
    stream_.synchronize();
    const std::int64_t rows = groups * s.rows;
    const auto measure = [&](ProductTimes& to, const TensorSpecs& specs, const Work& work) {
      const double taken = matmul_seconds(numbers, specs, work);
      to.add(recorded(specs, work).front(), taken);
    };
    for (const bool transposed : {true, false}) {
      const Shape weights =
          transposed ? Shape{groups * s.columns, s.depth} : Shape{groups * s.depth, s.columns};
      measure(times, {{{rows, s.columns}, dtype}, {{rows, s.depth}, dtype}, {weights, dtype}},
              [&](Stream& stream, const auto& t) {
                ops::grouped_gemm(stream, t[0], t[1], t[2], starts, transposed);
              });
    }
    measure(gradient_times,
            {{{groups * s.depth, s.columns}, DType::kF32},
             {{rows, s.depth}, dtype},
             {{rows, s.columns}, dtype}},
            [&](Stream& stream, const auto& t) {
              ops::grouped_gemm_weight(stream, t[0], t[1], t[2], starts, ops::Accumulate::kAdd);
            });
  }
  ProductRate& rate = profile.rates[static_cast<std::size_t>(numbers)];
  rate.grouped = times.fit(rate.peak);
  rate.grouped_weight_gradient = gradient_times.fit(rate.peak);
}

// Of matrices that are quantized already: their passes are memory-bound ops.
void ComputeCalibration::products_of_float8(DeviceProfile& profile) {
  constexpr auto kActivations = Float8Format::kE4M3;
  ProductTimes times(profile);
  for (const CalibrationSizes::Product& s : sizes_.products) {
    for (const bool of_weights : {false, true}) {
      const TensorSpecs specs{{{s.rows, s.depth}, DType::kBf16},
                              {{s.columns, s.depth}, DType::kBf16},
                              {{s.rows, s.columns}, of_weights ? DType::kF32 : DType::kBf16}};
      TensorRotation rotation(stream_, arena_, specs, 0, 1);
      const std::vector<Tensor>& t = rotation.next();
      const auto left = of_weights ? Float8Format::kE5M2 : kActivations;
      const ops::Float8Gemm product{t[2],
                                    ops::quantize(stream_, arena_, t[0], left, false),
                                    ops::quantize(stream_, arena_, t[1], kActivations, false),
                                    of_weights ? ops::Accumulate::kAdd : ops::Accumulate::kReplace,
                                    {}};
      const auto work = [&](Stream& stream) { ops::gemm_float8(stream, arena_, product); };
      const double taken = over_passes(stopwatch_.alone([&] { work(stream_); }));
      std::vector<PlannedOp> ops;
      Tally tally{.ops = &ops};
      Stream planning(stream_.device(), tally);
      work(planning);
      times.add(ops.front(), taken);
    }
  }
  ProductRate& rate = profile.rates[static_cast<std::size_t>(NumberFormat::kFloat8)];
  rate.peak = times.best();
  times.fit(rate);
  // Attention computes in 16 bits.
  const ProductRate& half = profile.rate(NumberFormat::kHalf);
  rate.flash = half.flash * half.peak / rate.peak;
}

// Forward and backward together.
ComputeCalibration::AttentionRate ComputeCalibration::attention_rate(const DeviceProfile& profile,
                                                                     NumberFormat numbers,
                                                                     bool masked) {
  // In float32 a GPU has no tensor cores: the larger shapes would take minutes.
  const std::int64_t shrink = stream_.on_cuda() && numbers == NumberFormat::kFloat32 ? 8 : 1;
  const std::int64_t tokens = sizes_.attention_tokens / shrink;
  const DType dtype = stored(numbers);
  std::vector<Measurement<3>> all;
  double best = 0;
  const Arena::Frame frame(arena_);
  const Tensor start = arena_.take({tokens}, DType::kI32);
  fill_bytes(stream_, start.data, 0, start.bytes());
  for (const CalibrationSizes::Attention& h : sizes_.attention) {
    const std::int64_t heads = sizes_.attention_hidden / h.width;
    const std::int64_t seq_len = h.seq / shrink;
    const ops::AttentionShape shape{.batch = tokens / seq_len,
                                    .seq = seq_len,
                                    .heads = {heads, heads, h.width},
                                    .scale = 0.1,
                                    .masked = masked};
    const std::pair<Shape, DType> qkv{{tokens, shape.heads.qkv()}, dtype},
        out{{tokens, shape.heads.query()}, dtype}, lse{{tokens, heads}, DType::kF32};
    const TensorSpecs specs{qkv, qkv, out, out, lse};
    const Work work = [&](Stream& stream, const auto& t) {
      ops::attention(stream, arena_, t[2], t[4], t[0], start, shape);
      ops::attention_backward(
          stream, arena_,
          {.dqkv = t[1], .dout = t[3], .out = t[2], .qkv = t[0], .lse = t[4], .first_seen = start},
          shape);
    };
    const double taken = seconds(specs, work);
    double flops = 0, launches = 0;
    for (const PlannedOp& op : recorded(specs, work)) {
      flops += op.flops + op.recomputed_flops;
      launches += profile.launch;
    }
    const auto seq = static_cast<double>(seq_len), width = static_cast<double>(h.width);
    all.push_back(
        {.seconds = taken, .known = launches, .parts = {flops, flops / width, flops / seq}});
    best = std::max(best, flops / taken);
  }
  const auto [flat, of_width, of_keys] = least_squares(all);
  const double each = main_factor(flat, best);
  return {each, of_width / each, of_keys / each};
}

// On a GPU whole sequences by what it is fastest at, and document masks by our own kernels.
void ComputeCalibration::attention(DeviceProfile& profile, NumberFormat numbers) {
  ProductRate& rate = profile.rates[static_cast<std::size_t>(numbers)];
  const bool on_cuda = stream_.on_cuda();
  const AttentionRate fastest = attention_rate(profile, numbers, /*masked=*/!on_cuda);
  rate.flash = 1 / (fastest.seconds_per_flop * rate.peak);
  rate.half_width = fastest.half_width;
  rate.half_keys = fastest.half_keys;
  if (!on_cuda) return;
  const AttentionRate own = attention_rate(profile, numbers, /*masked=*/true);
  rate.own_flash = 1 / (own.seconds_per_flop * rate.peak);
}

void ComputeCalibration::measure(DeviceProfile& profile) {
  measured_ = 0;
  memory(profile);
  for (const NumberFormat numbers : {NumberFormat::kFloat32, NumberFormat::kHalf}) {
    products(profile, numbers);
    grouped_products(profile, numbers);
    attention(profile, numbers);
    streams(profile, numbers);
  }
  if (stream_.on_cuda() && ops::why_no_float8(properties_of(stream_.device())).empty()) {
    products_of_float8(profile);
  }
}

}  // namespace trireme
