#pragma once
// Holds a layer's backward against central differences of its forward, in float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "model/params/init.h"
#include "model/params/param_store.h"

namespace trireme::test {

// Normal numbers that depend on the name alone.
inline void fill_normal(Tensor tensor, const std::string& name, double scale = 1, double mean = 0) {
  std::vector<float> noise(tensor.count());
  ElementInit(Init::kNormal, 1, 7, name).fill(0, noise);
  for (std::size_t i = 0; i < noise.size(); ++i) {
    tensor.as<double>()[i] = mean + scale * static_cast<double>(noise[i]);
  }
}

inline double dot(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (std::int64_t i = 0; i < a.count(); ++i) sum += a.as<double>()[i] * b.as<double>()[i];
  return sum;
}

// Memory and parameters for one layer under test.
class LayerBench {
 public:
  ParamStore params;
  Stream stream;
  Arena weights{1 << 20}, masters{0}, gradients{1 << 20}, keep{8 << 20}, scratch{8 << 20},
      fixed{4 << 20};
  ExecContext ctx{stream, keep, scratch};

  // Once the layer has declared its parameters: values away from zeros and ones.
  void allocate() {
    params.allocate({weights, masters, &gradients}, DType::kF64);
    for (Weight& weight : params.weights()) {
      for (Param& param : weight.parts) {
        const double mean = param.spec.init == Init::kOnes ? 1 : 0;
        fill_normal(param.value, param.spec.name, 0.3, mean);
      }
    }
  }
  Tensor random(Shape shape, const std::string& name, double scale = 1) {
    const Tensor tensor = fixed.take(shape, DType::kF64);
    fill_normal(tensor, name, scale);
    return tensor;
  }
  Tensor integers(const std::vector<std::int32_t>& values) {
    const Tensor tensor = fixed.take({static_cast<std::int64_t>(values.size())}, DType::kI32);
    std::copy(values.begin(), values.end(), tensor.as<std::int32_t>());
    return tensor;
  }

  // `forward` gives a scalar function of the inputs and the parameters; `backward`
  // runs forward and backward, leaves parameter gradients in the store and returns
  // the gradient of each input. Two rounds of it must add up in the store.
  void check(const std::vector<Tensor>& inputs, const std::function<double()>& forward,
             const std::function<std::vector<Tensor>()>& backward) {
    params.expect_gradients();
    reset();
    const std::vector<Tensor> dinputs = backward();
    ASSERT_EQ(dinputs.size(), inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      compare("input " + std::to_string(i), inputs[i], copy(dinputs[i]), 1, forward);
    }
    params.require_gradients();
    reset();
    backward();
    for (const Weight& weight : params.weights()) {
      for (const Param& param : weight.parts) {
        if (param.spec.is_buffer) continue;  // no gradient
        compare(param.spec.name, param.value, copy(param.grad), 2, forward);
      }
    }
  }

 private:
  void reset() {
    keep.reset();
    scratch.reset();
  }
  static std::vector<double> copy(const Tensor& t) {
    return {t.as<double>(), t.as<double>() + t.count()};
  }
  void compare(const std::string& what, const Tensor& at, const std::vector<double>& gradient,
               double times, const std::function<double()>& forward) {
    constexpr double kStep = 2e-5;  // truncation ~ step^2, rounding ~ 1e-16 / step
    double largest = 0;
    double worst = 0;
    for (std::int64_t i = 0; i < at.count(); ++i) {
      double& element = at.as<double>()[i];
      const double held = element;
      const auto value = [&](double offset) {
        reset();
        element = held + offset;
        const double result = forward();
        element = held;
        return result;
      };
      // The five-point rule: its truncation error is of fourth order.
      const double slope = (8 * (value(kStep * 10) - value(-kStep * 10)) -
                            (value(kStep * 20) - value(-kStep * 20))) /
                           (12 * kStep * 10);
      largest = std::max(largest, std::abs(slope));
      worst = std::max(worst, std::abs(slope - gradient[i] / times));
    }
    if (what.ends_with("k.bias")) {
      // A shift of all keys shifts all scores of a query alike (no rotation, no norm):
      // the softmax does not see it, and both gradients are rounding.
      EXPECT_LT(worst, 1e-9) << what;
      return;
    }
    EXPECT_GT(largest, 0) << what << " has no influence";
    EXPECT_LT(worst, 1e-7 * largest) << what;
  }
};

}  // namespace trireme::test
