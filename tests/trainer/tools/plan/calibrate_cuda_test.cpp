// What a calibration finds on a CUDA device, with small tensors.
#include <gtest/gtest.h>

#include <cmath>

#include "model/device/devices.h"
#include "trainer/tools/plan/calibrate/calibrate.h"

namespace trireme {
namespace {

constexpr Device kGpu{Device::Kind::kCuda, 0};

CalibrationSizes small() {
  return {.products = {{16, 16, 16}, {32, 16, 16}, {16, 32, 32}},
          .grouped = {{2, {16, 16, 16}}, {4, {32, 16, 32}}},
          .attention = {{16, 16}, {16, 32}, {32, 16}},
          .attention_tokens = 32,
          .attention_hidden = 32,
          .stream_rows = 16,
          .stream_width = 32,
          .words = 64,
          .stream_heads = {2, 1, 16},
          .numbers_below = 16,
          .updated = 8192,
          .much = 4096,
          .little = 1024,
          .spread = 0,
          .arena = std::size_t{1} << 20,
          .activations = 4096,
          .bucket = 4096};
}

TEST(CalibrationOnCuda, MeasuresWhatThePlannerReads) {
  if (cuda_devices().count == 0) GTEST_SKIP() << cuda_devices().reason;
  World world([](const char*) { return std::nullopt; });
  world.use_device(kGpu);
  const DeviceProfile profile = calibrate(world, kGpu, small());
  const DeviceProperties properties = properties_of(kGpu);
  EXPECT_EQ(profile.name, properties.name);
  EXPECT_TRUE(profile.device().is_cuda());
  EXPECT_EQ(profile.units, properties.multiprocessors);
  EXPECT_EQ(profile.cores, 0);
  EXPECT_TRUE(profile.network.overlaps);
  EXPECT_EQ(profile.network.ranks_per_node, 1);
  EXPECT_GT(profile.launch, 0);
  for (const NumberFormat numbers : {NumberFormat::kFloat32, NumberFormat::kHalf}) {
    const ProductRate& rate = profile.rate(numbers);
    for (const double found :
         {rate.peak, rate.product, rate.flash, rate.own_flash, rate.grouped->product,
          rate.weight_gradient->product, rate.grouped_weight_gradient->product}) {
      EXPECT_TRUE(std::isfinite(found) && found > 0) << name_of(numbers) << ' ' << found;
    }
    for (const char* op : {"add", "update", "rms_norm", "swiglu_backward", "rope"}) {
      EXPECT_GT(rate.streams.count(op), 0u) << op;
    }
  }
  EXPECT_GT(profile.rate(NumberFormat::kFloat8).peak, 0);
  EXPECT_GT(profile.rate(NumberFormat::kHalf).streams.count("quantize"), 0u);
  const std::string path = testing::TempDir() + "calibrated.json";
  write_profile(path, profile);
  EXPECT_EQ(find_profile(path).rate(NumberFormat::kHalf).own_flash,
            profile.rate(NumberFormat::kHalf).own_flash);
}

}  // namespace
}  // namespace trireme
