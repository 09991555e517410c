#include "trainer/tools/plan/calibrate_compute.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "model/ops/attention.h"
#include "model/ops/elementwise.h"
#include "model/ops/gemm.h"

namespace trireme {
namespace {

constexpr double kFloat = 4;
constexpr std::int64_t kNumbersBelow = 512;  // bound of positions and token ids

DType stored(NumberFormat numbers) {
  return numbers == NumberFormat::kHalf ? DType::kBf16 : DType::kF32;
}

struct ProductSizes {
  std::int64_t rows, columns, depth;
};
// Matmul shapes of small models: projections of tokens, and weight gradients.
constexpr std::array<ProductSizes, 10> kProducts{{{128, 128, 128},
                                                  {256, 512, 128},
                                                  {512, 128, 512},
                                                  {512, 512, 256},
                                                  {1024, 256, 256},
                                                  {256, 1024, 256},
                                                  {256, 256, 1024},
                                                  {512, 1536, 512},
                                                  {512, 512, 2048},
                                                  {1024, 1024, 1024}}};

struct Heads {
  std::int64_t width, seq;
};
constexpr std::array<Heads, 5> kAttentionSizes{
    {{32, 128}, {32, 512}, {64, 256}, {64, 512}, {128, 256}}};

// Seconds per FLOP of a large operation, bounded below by a tenth of the best measured.
double main_factor(double factor, double best) {
  return std::max(factor, 0.1 / best);
}

}  // namespace

class ComputeCalibration::TensorRotation {
 public:
  TensorRotation(Arena& arena, const TensorSpecs& specs) : frame_(arena) {
    constexpr std::size_t kSpread = std::size_t{6} << 20;
    std::size_t bytes = 0;
    for (const auto& [shape, dtype] : specs) {
      bytes += static_cast<std::size_t>(shape.count()) * size_of(dtype);
    }
    sets_.resize(std::clamp<std::size_t>(kSpread / bytes, 1, 32));
    for (std::vector<Tensor>& tensors : sets_) {
      for (const auto& [shape, dtype] : specs) fill(tensors.emplace_back(arena.take(shape, dtype)));
    }
  }
  const std::vector<Tensor>& next() {
    turn_ = (turn_ + 1) % sets_.size();
    return sets_[turn_];
  }

 private:
  static void fill(const Tensor& tensor) {
    constexpr int kTiny = 0x3C;  // as bytes, 0.01 in float32 and in bfloat16
    std::memset(tensor.data, kTiny, tensor.bytes());
    if (tensor.dtype != DType::kI32) return;
    auto* const values = tensor.as<std::int32_t>();
    for (std::int64_t i = 0; i < tensor.count(); ++i) {
      values[i] = static_cast<std::int32_t>(i * 7919 % kNumbersBelow);
    }
  }

  Arena::Frame frame_;
  std::vector<std::vector<Tensor>> sets_;
  std::size_t turn_ = 0;
};

double ComputeCalibration::seconds(const TensorSpecs& specs, const Work& work) {
  TensorRotation rotation(arena_, specs);
  return stopwatch_.alone([&] { work(stream_, rotation.next()); });
}

std::vector<PlannedOp> ComputeCalibration::recorded(const TensorSpecs& specs, const Work& work) {
  const Arena::Frame frame(arena_);
  std::vector<Tensor> tensors;
  for (const auto& [shape, dtype] : specs) tensors.push_back(arena_.take(shape, dtype));
  std::vector<PlannedOp> ops;
  Tally tally{.ops = &ops};
  Stream planning(Device{}, tally);
  work(planning, tensors);
  return ops;
}

// Bandwidth of a large addition, and the launch time of a small one.
void ComputeCalibration::memory(DeviceProfile& profile) {
  constexpr std::int64_t kMuch = std::int64_t{1} << 20, kLittle = std::int64_t{1} << 16;
  const auto sum = [&](std::int64_t count) {
    const std::pair<Shape, DType> one{{count}, DType::kF32};
    return seconds({one, one, one},
                   [](Stream& stream, const auto& t) { ops::add(stream, t[0], t[1], t[2]); });
  };
  const double much = sum(kMuch), little = sum(kLittle), least = sum(16);
  profile.memory_bandwidth = 3 * kFloat * kMuch / much;
  profile.streamed = 1;
  // Above this, other programs used the cores.
  constexpr double kMostLaunch = 50e-6;
  profile.launch = std::clamp(little - much * kLittle / kMuch, least, std::max(least, kMostLaunch));
}

// Fits the time of a matmul: memory traffic of the result, FLOPs, and FLOPs over each extent.
void ComputeCalibration::products(DeviceProfile& profile, NumberFormat numbers) {
  const DType dtype = stored(numbers);
  std::vector<Measurement<4>> all;
  double best = 0;
  const auto measure = [&](const ProductSizes& s, const Shape& a, const Shape& b, DType result,
                           const ops::Gemm& how) {
    const TensorSpecs specs{{{s.rows, s.columns}, result}, {a, dtype}, {b, dtype}};
    const Work work = [&](Stream& stream, const auto& t) {
      ops::gemm(stream, t[0], t[1], t[2], how);
    };
    const double taken = seconds(specs, work);
    const PlannedOp op = recorded(specs, work).front();
    all.push_back(
        {.seconds = taken,
         .known = profile.launch + op.result_bytes / profile.memory_bandwidth,
         .parts = {op.flops, op.flops / op.depth, op.flops / op.rows, op.flops / op.columns}});
    best = std::max(best, op.flops / taken);
  };
  for (const ProductSizes& s : kProducts) {
    const Shape a{s.rows, s.depth};
    measure(s, a, {s.columns, s.depth}, dtype, {.transpose_b = true});
    measure(s, a, {s.depth, s.columns}, dtype, {});
    measure(s, {s.depth, s.rows}, {s.depth, s.columns}, DType::kF32,
            {.transpose_a = true, .accumulate = ops::Accumulate::kAdd});
  }
  const auto [flat, of_depth, of_rows, of_columns] = least_squares(all);
  const double each = main_factor(flat, best);
  ProductRate& rate = profile.rates[static_cast<std::size_t>(numbers)];
  rate.peak = best;
  rate.product = 1 / (each * best);
  rate.half_depth = of_depth / each;
  rate.half_rows = of_rows / each;
  rate.half_columns = of_columns / each;
}

// Forward and backward together.
void ComputeCalibration::attention(DeviceProfile& profile, NumberFormat numbers) {
  constexpr std::int64_t kTokens = 1024, kHidden = 256;
  const DType dtype = stored(numbers);
  std::vector<Measurement<3>> all;
  double best = 0;
  const Arena::Frame frame(arena_);
  const Tensor start = arena_.take({kTokens}, DType::kI32);
  std::memset(start.data, 0, start.bytes());
  for (const Heads& h : kAttentionSizes) {
    const std::int64_t heads = kHidden / h.width;
    const ops::AttentionShape shape{.batch = kTokens / h.seq,
                                    .seq = h.seq,
                                    .heads = {heads, heads, h.width},
                                    .scale = 0.1,
                                    .documents = true};
    const std::pair<Shape, DType> qkv{{kTokens, shape.heads.qkv()}, dtype},
        out{{kTokens, shape.heads.query()}, dtype}, lse{{kTokens, heads}, DType::kF32};
    const TensorSpecs specs{qkv, qkv, out, out, lse};
    const Work work = [&](Stream& stream, const auto& t) {
      ops::attention(stream, arena_, t[2], t[4], t[0], start, shape);
      ops::attention_backward(stream, arena_,
                              {.dqkv = t[1],
                               .dout = t[3],
                               .out = t[2],
                               .qkv = t[0],
                               .lse = t[4],
                               .document_start = start},
                              shape);
    };
    const double taken = seconds(specs, work);
    double flops = 0, launches = 0;
    for (const PlannedOp& op : recorded(specs, work)) {
      flops += op.flops + op.recomputed_flops;
      launches += profile.launch;
    }
    const auto seq = static_cast<double>(h.seq), width = static_cast<double>(h.width);
    all.push_back(
        {.seconds = taken, .known = launches, .parts = {flops, flops / width, flops / seq}});
    best = std::max(best, flops / taken);
  }
  const auto [flat, of_width, of_keys] = least_squares(all);
  const double each = main_factor(flat, best);
  ProductRate& rate = profile.rates[static_cast<std::size_t>(numbers)];
  rate.flash = 1 / (each * rate.peak);
  rate.half_width = of_width / each;
  rate.half_keys = of_keys / each;
}

void ComputeCalibration::fill(DeviceProfile& profile) {
  memory(profile);
  for (const NumberFormat numbers : {NumberFormat::kFloat32, NumberFormat::kHalf}) {
    products(profile, numbers);
    attention(profile, numbers);
    streams(profile, numbers);
  }
}

}  // namespace trireme
