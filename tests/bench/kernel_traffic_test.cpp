// KERNELS.md against what the emulator counts: the document's MB are those that ops record at its
// shapes, and at smaller ones kernels move the recorded bytes.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <numeric>
#include <sstream>

#include "model/device/copy.h"
#include "model/ops/norm.h"
#include "tests/bench/cuda_bench.h"
#include "tests/cuda_emulator/traffic.h"

namespace trireme::bench {
namespace {

constexpr Device kCuda{Device::Kind::kCuda, 0};
constexpr std::size_t kPage = 4096;
constexpr double kH100 = 3.35, kA100 = 2.04;  // MB per us

bool full_shapes = false;

std::map<std::string, Prepare> added;

// They, and extent() afterwards, have the document's shapes or smaller ones.
const std::map<std::string, Prepare>& benchmarks(bool full) {
  full_shapes = full;
  added.clear();
  add_streams();
  add_expert_streams();
  return added;
}

struct Plan {
  double bytes;                // that ops record
  std::size_t arena, scratch;  // that the benchmark takes
};
Plan plan_of(const Prepare& prepare) {
  std::vector<PlannedOp> ops;
  Tally tally{.ops = &ops};
  Stream stream(kCuda, tally);
  Arena arena = Arena::unbounded(kCuda), scratch = Arena::unbounded(kCuda);
  Operands operands{stream, arena, scratch};
  const auto work = prepare(operands);
  ops.clear();
  work();
  const double bytes = std::accumulate(
      ops.begin(), ops.end(), 0.0, [](double sum, const PlannedOp& op) { return sum + op.bytes; });
  return {bytes, arena.peak(), scratch.peak()};
}

// Takes what brings the next tensor of `arena`, which starts at `base`, to a page's start.
void align_to_page(Arena& arena, const std::byte* base) {
  const auto over = (reinterpret_cast<std::uintptr_t>(base) + arena.used()) % kPage;
  arena.take({static_cast<std::int64_t>((kPage - over) % kPage / 4)}, DType::kI32);
}

double counted_bytes(const Prepare& prepare, const Plan& plan) {
  Stream stream(kCuda);
  Arena arena(plan.arena + kPage, kCuda), scratch(plan.scratch + kPage, kCuda);
  for (Arena* each : {&arena, &scratch}) align_to_page(*each, each->take({0}).data);
  Operands operands{stream, arena, scratch};
  const auto work = prepare(operands);
  stream.synchronize();
  const emulator::TrafficCounter counter;
  work();
  stream.synchronize();
  return static_cast<double>(counter.traffic().read + counter.traffic().written);
}

struct Row {
  double megabytes = 0;
  std::string h100, a100;
};

// The rows of the table with a column "reads", by kernel.
std::map<std::string, Row> stream_rows() {
  std::map<std::string, Row> rows;
  std::ifstream file(TRIREME_KERNELS);
  bool is_here = false;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("| kernel | shape | reads", 0) == 0) is_here = true;
    if (line.empty()) is_here = false;
    if (!is_here) continue;
    std::vector<std::string> cells;
    std::istringstream cut(line);
    for (std::string cell; std::getline(cut, cell, '|');) {
      const auto first = cell.find_first_not_of(' '), last = cell.find_last_not_of(' ');
      cells.push_back(first == std::string::npos ? "" : cell.substr(first, last - first + 1));
    }
    if (cells.size() < 9 || cells[1] == "kernel" || cells[1].rfind("---", 0) == 0) continue;
    rows[cells[1]] = {std::stod(cells[5]), cells[7], cells[8]};
  }
  return rows;
}

void expect_time(const std::string& cell, double megabytes, double rate) {
  if (cell == "-") return;
  EXPECT_NEAR(std::stod(cell), megabytes / rate, 1) << cell;
}

TEST(KernelTraffic, document_has_every_kernel_with_the_bytes_it_records) {
  const std::map<std::string, Row> rows = stream_rows();
  for (const auto& [name, prepare] : benchmarks(true)) {
    SCOPED_TRACE(name);
    const auto found = rows.find(name);
    ASSERT_NE(found, rows.end());
    const double megabytes = plan_of(prepare).bytes / 1e6;
    EXPECT_NEAR(found->second.megabytes, megabytes, std::max(0.005, 0.005 * megabytes));
    expect_time(found->second.h100, megabytes, kH100);
    expect_time(found->second.a100, megabytes, kA100);
  }
  EXPECT_EQ(rows.size(), added.size());
}

TEST(KernelTraffic, kernels_move_the_bytes_they_record) {
  if (!emulator::TrafficCounter::is_available()) {
    GTEST_SKIP() << "page faults tell reads from writes on x86-64 Linux only";
  }
  for (const auto& [name, prepare] : benchmarks(false)) {
    const Plan plan = plan_of(prepare);
    const double recorded = plan.bytes, counted = counted_bytes(prepare, plan);
    // Small operands and the ends of large ones share pages; so do a token's last keys with values.
    const bool skips_values =
        name == "rope" || name.rfind("head_norm", 0) == 0 || name.rfind("projection_norm", 0) == 0;
    EXPECT_NEAR(counted, recorded, (skips_values ? 0.25 : 0.02) * recorded + 16 * kPage) << name;
  }
}

TEST(KernelTraffic, norm_backward_has_blocks_for_a_whole_gpu) {
  Stream stream(kCuda);
  Arena arena(std::size_t{16} << 20, kCuda), scratch(std::size_t{4} << 20, kCuda);
  Operands of{stream, arena, scratch};
  const Shape shape{8192, 32}, width{32}, rows{8192};
  const ops::NormBackward op{.kind = NormKind::kRmsNorm,
                             .dx = of.zeros(shape),
                             .dgain = of.zeros(width, DType::kF32),
                             .dy = of.random(shape),
                             .x = of.random(shape),
                             .gain = of.random(width),
                             .inverse = of.random(rows, DType::kF32)};
  const emulator::TrafficCounter counter;
  ops::norm_backward(stream, scratch, op);
  stream.synchronize();
  constexpr std::uint64_t kMultiprocessors = 128;  // of which an H100 has 132, an A100 108
  EXPECT_GE(counter.traffic().most_blocks, 2 * kMultiprocessors);
}

}  // namespace

void add(const std::string& name, const Prepare& prepare) {
  added[name.substr(name.find('/') + 1)] = prepare;
}

// Small enough for the emulator, with rows of whole pages.
std::int64_t extent(std::int64_t full) {
  if (full_shapes || full <= 4096) return full;
  return full / (full < 100'000 ? 16 : full < 1'000'000 ? 64 : 256);
}

Tensor Operands::random(Shape shape, DType dtype) {
  const Tensor tensor = arena.take(shape, dtype);
  if (!stream.executes()) return tensor;
  const std::vector<std::byte> bytes(tensor.bytes(), std::byte{0x3f});  // 0.75 in 32 and 16 bits
  copy_bytes(stream, tensor.data, bytes.data(), bytes.size());
  stream.synchronize();
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

// Distinct ones: a row of a table that is met again is in a cache.
Tensor Operands::ids(std::int64_t count, std::int64_t vocabulary) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<std::int32_t>(static_cast<std::int64_t>(i) * vocabulary / count);
  }
  return integers(values);
}

}  // namespace trireme::bench
