#include "trainer/engine/matrix_peak.h"

#include <gtest/gtest.h>

#include "model/base/half.h"
#include "model/tensor/arena.h"
#include "model/tensor/host_mirror.h"
#include "tests/trainer/engine/tiny_engine.h"

namespace trireme {
namespace {

using MatrixPeak = test::OnDevice;

// As those of a run: hardly a zero, mean 0, variance 1, up to the last element.
TEST_F(MatrixPeak, operands_are_normal_numbers) {
  constexpr std::int64_t kSide = 400;  // more elements than are drawn
  Arena arena(std::size_t{1} << 20, test::kDevice);
  Stream stream(test::kDevice);
  const Tensor tensor = arena.take({kSide, kSide}, DType::kBf16);
  fill_normal(stream, tensor);
  const HostMirror mirror(stream, tensor);
  mirror.download(stream);
  stream.synchronize();
  double sum = 0, squares = 0;
  std::int64_t zeros = 0;
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    const double value = static_cast<float>(mirror.host().as<Bf16>()[i]);
    sum += value;
    squares += value * value;
    zeros += value == 0 ? 1 : 0;
  }
  const auto count = static_cast<double>(tensor.count());
  EXPECT_LT(zeros, 10);
  EXPECT_NEAR(sum / count, 0, 0.02);
  EXPECT_NEAR(squares / count, 1, 0.02);
}

}  // namespace
}  // namespace trireme
