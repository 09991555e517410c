// Matrix products of a rank that waits for a message.
#include <gtest/gtest.h>
#include <unistd.h>

#include "model/ops/gemm.h"
#include "parallel/comm/gpu_environment.h"
#include "tests/nccl_emulator/device_values.h"
#include "tests/nccl_emulator/emulated_job.h"

namespace trireme {
namespace {

using test::DeviceValues;
using test::EmulatedJob;
using test::EmulatedRank;

// Each of two ranks sends only after products of shapes that no schedule before has met.
void multiply_while_receiving(std::uint64_t seed, bool prepared) {
  EmulatedJob options{.job = {.seed = seed}};
  for (const auto& [name, value] : comm::gpu_variables()) options.job.variables[name] = value;
  test::run_emulated(options, [&](EmulatedRank& own) {
    const auto group = own.group("ring", {0, 1}, Messages::kSent);
    Stream stream(own.device);
    const auto rows = static_cast<std::int64_t>(seed);
    const DeviceValues a(std::vector<float>(seed * 4, 1), stream);
    const DeviceValues b(std::vector<float>(4 * 4, 2), stream);
    const DeviceValues c(std::vector<float>(seed * 4), stream);
    const DeviceValues received(std::vector<float>(4), stream);
    if (prepared) ops::prepare_gemm(stream, /*most_added=*/std::size_t{1} << 16);
    Transfer coming = group->start_receive(stream, received.tensor(), 1 - own.rank);
    Tensor left = a.tensor(), right = b.tensor(), product = c.tensor();
    left.shape = product.shape = Shape{rows, 4};
    right.shape = Shape{4, 4};
    ops::gemm(stream, product, left, right, {});
    ops::gemm(stream, product, left, right, {.accumulate = ops::Accumulate::kAdd});
    Transfer going = group->start_send(stream, b.tensor().slice(0, 4), 1 - own.rank);
    coming.wait();
    going.wait();
    EXPECT_EQ(c.read(), std::vector<float>(seed * 4, 16));
    EXPECT_EQ(received.read(), std::vector<float>(4, 2));
  });
}

TEST(Products, allocate_nothing_once_prepared) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    ASSERT_NO_THROW(multiply_while_receiving(seed, /*prepared=*/true)) << "seed " << seed;
  }
}

// In a process of its own: what a hang leaves locked stays so.
TEST(ProductsDeathTest, hang_without_preparation) {
  const auto hangs = [] {
    try {
      for (std::uint64_t seed = 1; seed <= 100; ++seed) multiply_while_receiving(seed, false);
    } catch (const emulator::Hang&) {
      ::_exit(3);
    }
    ::_exit(0);
  };
  EXPECT_EXIT(hangs(), testing::ExitedWithCode(3), "");
}

}  // namespace
}  // namespace trireme
