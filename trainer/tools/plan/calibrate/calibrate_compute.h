#pragma once
#include <functional>
#include <utility>
#include <vector>

#include "model/tensor/arena.h"
#include "trainer/tools/plan/calibrate/calibration_sizes.h"
#include "trainer/tools/plan/calibrate/least_squares.h"
#include "trainer/tools/plan/calibrate/stopwatch.h"
#include "trainer/tools/plan/device/device_profile.h"

namespace trireme {

// Measures the trainer's own operations in float32, bfloat16 and, on a GPU that has it, float8, on
// all ranks at the same time.
// Each call uses other tensors than the last, so that the caches are as cold as in a step.
class ComputeCalibration {
 public:
  // All but the device outlive it. `half_pace`: of matmuls in bfloat16, to which those of
  // NumberFormat::kHalf are relative; all else is to `pace`. `samples`: of an operation in a pass.
  ComputeCalibration(Communicator& ranks, Device device, MachinePace& pace, MachinePace& half_pace,
                     std::size_t samples, const CalibrationSizes& sizes)
      : sizes_(sizes),
        stream_(device),
        arena_(sizes.arena, device),
        stopwatch_(ranks, stream_, pace, samples),
        half_stopwatch_(ranks, stream_, half_pace, samples) {}

  // A pass over all operations: sets memory bandwidth, launch time and rates of the profile, whose
  // `units` are set, by the medians of this pass and those before it. Collective.
  void measure(DeviceProfile& profile);

 private:
  // Shapes and dtypes of the tensors of an operation.
  using TensorSpecs = std::vector<std::pair<Shape, DType>>;
  class TensorRotation;
  class StreamRates;
  using Work = std::function<void(Stream&, const std::vector<Tensor>&)>;
  // Seconds of a call of `work`, which rotates over copies of the tensors that exceed the cache.
  double seconds(const TensorSpecs& specs, const Work& work) {
    return seconds(specs, work, stopwatch_, half_stopwatch_);
  }
  // The same by `by`; the pace of the other is sampled too, so that both know that of all the time.
  double seconds(const TensorSpecs& specs, const Work& work, Stopwatch& by, Stopwatch& other);
  // Adds the next measurement of this pass; returns its median over the passes so far. All passes
  // measure the same operations in the same order.
  double over_passes(double seconds);
  double matmul_seconds(NumberFormat numbers, const TensorSpecs& specs, const Work& work);
  // The ops of a call, as the planner knows them.
  std::vector<PlannedOp> recorded(const TensorSpecs& specs, const Work& work);

  void memory(DeviceProfile& profile);
  void streams(DeviceProfile& profile, NumberFormat numbers);
  void products(DeviceProfile& profile, NumberFormat numbers);
  void grouped_products(DeviceProfile& profile, NumberFormat numbers);
  void products_of_float8(DeviceProfile& profile);
  struct AttentionRate {
    double seconds_per_flop, half_width, half_keys;
  };
  AttentionRate attention_rate(const DeviceProfile& profile, NumberFormat numbers, bool masked);
  void attention(DeviceProfile& profile, NumberFormat numbers);

  const CalibrationSizes& sizes_;
  Stream stream_;
  Arena arena_;
  Stopwatch stopwatch_, half_stopwatch_;
  std::vector<std::vector<double>> seconds_;  // by their order in a pass, then by pass
  std::size_t measured_ = 0;                  // of this pass
};

}  // namespace trireme
