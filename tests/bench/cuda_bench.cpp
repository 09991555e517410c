// Times ops on the first CUDA device, by its own clock:
//   cuda_bench [--small] [--gpu H200] [--benchmark_filter=^attention/] [--benchmark_out=FILE]
// --gpu names the device that predictions are for, as for `trireme plan`. --small takes shapes for
// the emulator.
#include "tests/bench/cuda_bench.h"

#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdio>
#include <cstring>

#include "model/device/copy.h"
#include "model/device/devices.h"
#include "model/device/event.h"
#include "trainer/tools/plan/estimate/op_time.h"

namespace trireme::bench {
namespace {

constexpr Device kCuda{Device::Kind::kCuda, 0};

struct Settings {
  bool small = false;
  DeviceProfile profile = find_profile("H200");
};
Settings& settings() {
  static Settings all;
  return all;
}

// Random elements by repeating a block that is larger than any cache.
void fill(Stream& stream, const Tensor& tensor) {
  constexpr std::size_t kBlock = std::size_t{1} << 26;
  std::vector<std::byte> block(std::min(kBlock, tensor.bytes()));
  std::uint32_t state = 1;
  const std::size_t count = block.size() / size_of(tensor.dtype);
  for (std::size_t i = 0; i < count; ++i) {
    state = state * 1664525 + 1013904223;
    const float value = static_cast<float>(state >> 8) / (1 << 23) - 1;
    std::byte* at = block.data() + i * size_of(tensor.dtype);
    const Bf16 half(value);
    const auto twice = static_cast<double>(value);
    if (tensor.dtype == DType::kBf16) std::memcpy(at, &half, sizeof half);
    if (tensor.dtype == DType::kF32) std::memcpy(at, &value, sizeof value);
    if (tensor.dtype == DType::kF64) std::memcpy(at, &twice, sizeof twice);
  }
  for (std::size_t at = 0; at < tensor.bytes(); at += block.size()) {
    copy_bytes(stream, tensor.data + at, block.data(), std::min(block.size(), tensor.bytes() - at));
  }
  stream.synchronize();
}

void set_counters(benchmark::State& state, const std::vector<PlannedOp>& ops, double copied) {
  double flops = 0, bytes = copied;
  for (const PlannedOp& op : ops) {
    flops += op.flops;
    bytes += op.bytes + op.result_bytes;
  }
  state.counters["flops"] = flops;
  state.counters["bytes"] = bytes;
  if (ops.empty()) return;
  state.counters["expected_us"] = 1e6 * list_time(ops, {}, settings().profile).seconds();
}

void measure(benchmark::State& state, const Prepare& prepare) {
  std::vector<PlannedOp> ops;
  Tally tally{.ops = &ops};
  Stream planning(kCuda, tally);
  Arena planned_arena = Arena::unbounded(kCuda), planned_scratch = Arena::unbounded(kCuda);
  Operands planned{planning, planned_arena, planned_scratch};
  const auto planned_work = prepare(planned);
  ops.clear();
  planned_work();

  Stream stream(kCuda);
  Arena arena(planned_arena.peak(), kCuda), scratch(planned_scratch.peak(), kCuda);
  Operands operands{stream, arena, scratch};
  const auto work = prepare(operands);
  work();  // chooses algorithms
  stream.synchronize();
  // Several times between two events, so that launches are hidden as they are in a step.
  const int times = settings().small ? 1 : 10;
  Event start(kCuda, Event::Use::kTiming), end(kCuda, Event::Use::kTiming);
  for ([[maybe_unused]] auto _ : state) {
    start.record(stream);
    for (int i = 0; i < times; ++i) work();
    end.record(stream);
    end.synchronize();
    state.SetIterationTime(end.milliseconds_since(start) * 1e-3 / times);
  }
  set_counters(state, ops, operands.copied_bytes);
  state.SetLabel(operands.label);
}

}  // namespace

Tensor Operands::random(Shape shape, DType dtype) {
  const Tensor tensor = arena.take(shape, dtype);
  if (stream.executes()) fill(stream, tensor);
  return tensor;
}

Tensor Operands::integers(const std::vector<std::int32_t>& values) {
  const Tensor tensor = arena.take({static_cast<std::int64_t>(values.size())}, DType::kI32);
  if (!stream.executes()) return tensor;
  copy_bytes(stream, tensor.data, reinterpret_cast<const std::byte*>(values.data()),
             tensor.bytes());
  stream.synchronize();
  return tensor;
}

Tensor Operands::ids(std::int64_t count, std::int64_t vocabulary) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(count));
  std::uint32_t state = 1;
  for (std::int32_t& value : values) {
    state = state * 1664525 + 1013904223;
    const double share = static_cast<double>(state >> 8) / (1 << 24);
    value = static_cast<std::int32_t>(std::pow(static_cast<double>(vocabulary), share)) - 1;
  }
  return integers(values);
}

std::int64_t extent(std::int64_t full) {
  return settings().small && full > 32 ? 32 + full % 16 : full;
}

void add(const std::string& name, const Prepare& prepare) {
  const auto run = [prepare](benchmark::State& state) {
    try {
      measure(state, prepare);
    } catch (const std::exception& error) {
      state.SkipWithError(error.what());
    }
  };
  benchmark::RegisterBenchmark(name.c_str(), run)
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond)
      ->Iterations(settings().small ? 1 : 3);
}

}  // namespace trireme::bench

int main(int argc, char** argv) {
  using namespace trireme;
  benchmark::Initialize(&argc, argv);
  try {
    for (int i = 1; i < argc; ++i) {
      const std::string argument = argv[i];
      if (argument == "--small") {
        bench::settings().small = true;
      } else if (argument == "--gpu" && i + 1 < argc) {
        bench::settings().profile = find_profile(argv[++i]);
      } else {
        throw ConfigError(say("unknown argument ", argument));
      }
    }
    require_present(bench::kCuda);
  } catch (const Error& error) {
    std::fprintf(stderr, "cuda_bench: %s\n", error.what());
    return static_cast<int>(ExitCode::kEnvironment);
  }
  const DeviceProfile& profile = bench::settings().profile;
  benchmark::AddCustomContext("device", properties_of(bench::kCuda).name);
  benchmark::AddCustomContext("expected_of", profile.name);
  benchmark::AddCustomContext("memory_bandwidth", std::to_string(profile.memory_bandwidth));
  benchmark::AddCustomContext("small", bench::settings().small ? "true" : "false");
  bench::add_copies();
  bench::add_products();
  bench::add_expert_products();
  bench::add_attention();
  bench::add_streams();
  bench::add_expert_streams();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
