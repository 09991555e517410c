#include "trainer/supervise/watchdog/signals.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <csignal>
#include <thread>
#include <vector>

#include "model/device/cpu/threads.h"
#include "model/ops/cpu/gemm_engine.h"

namespace trireme {
namespace {

using ops::cpu::GemmEngine;
using ops::cpu::GemmLibrary;

// By kernels that are generated at run time, whose use of the stack no compiler checks: the three
// products of a layer.
TEST(StopSignals, harm_no_product_that_is_under_way) {
  using ops::cpu::MatMulShape;
  const DType f32 = DType::kF32;
  const std::vector<MatMulShape> shapes{
      {.transpose_b = true, .in = f32, .out = f32, .m = 256, .n = 512, .k = 64, .lda = 64},
      {.in = f32, .out = f32, .m = 256, .n = 64, .k = 512, .lda = 512},
      {.transpose_a = true, .in = f32, .out = f32, .m = 512, .n = 64, .k = 256, .lda = 512}};
  cpu::use_threads(1);
  GemmEngine engine({});
  engine.fix(GemmLibrary::kOneDnn);
  std::vector<float> a(256 * 512), b(256 * 512);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 13) - 6;
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 7) - 3;
  const auto product = [&](const MatMulShape& shape) {
    std::vector<float> c(static_cast<std::size_t>(shape.m * shape.n));
    engine.run({.shape = shape,
                .a = reinterpret_cast<const std::byte*>(a.data()),
                .b = reinterpret_cast<const std::byte*>(b.data()),
                .bias = nullptr,
                .c = reinterpret_cast<std::byte*>(c.data())});
    return c;
  };
  std::vector<std::vector<float>> undisturbed;
  for (const MatMulShape& shape : shapes) undisturbed.push_back(product(shape));

  const StopSignals signals;
  std::atomic<bool> done = false;
  const pthread_t here = ::pthread_self();
  std::thread sender([&] {
    while (!done) {
      ::pthread_kill(here, SIGUSR1);
      std::this_thread::yield();
    }
  });
  int others = 0;
  for (int time = 0; time < 300; ++time) {
    for (std::size_t i = 0; i < shapes.size(); ++i)
      others += product(shapes[i]) == undisturbed[i] ? 0 : 1;
  }
  done = true;
  sender.join();
  cpu::use_threads(0);
  EXPECT_EQ(others, 0);
  EXPECT_EQ(signals.asked(), SIGUSR1);
}

}  // namespace
}  // namespace trireme
