#pragma once
#include <functional>
#include <utility>
#include <vector>

#include "model/tensor/arena.h"
#include "trainer/tools/plan/device_profile.h"
#include "trainer/tools/plan/least_squares.h"
#include "trainer/tools/plan/stopwatch.h"

namespace trireme {

// Measures the trainer's own operations in float32 and bfloat16 on all CPU ranks at the same time.
// Each call uses other tensors than the last, so that the caches are as cold as in a step.
class ComputeCalibration {
 public:
  // `ranks` outlives it.
  explicit ComputeCalibration(Communicator& ranks) : stopwatch_(ranks) {}

  // Sets memory bandwidth, launch time and rates of the profile. Collective.
  void fill(DeviceProfile& profile);

 private:
  // Shapes and dtypes of the tensors of an operation.
  using TensorSpecs = std::vector<std::pair<Shape, DType>>;
  class TensorRotation;
  class StreamRates;
  using Work = std::function<void(Stream&, const std::vector<Tensor>&)>;
  // Seconds of a call of `work`, which rotates over copies of the tensors that exceed the cache.
  double seconds(const TensorSpecs& specs, const Work& work);
  // The ops of a call, as the planner knows them.
  std::vector<PlannedOp> recorded(const TensorSpecs& specs, const Work& work);

  void memory(DeviceProfile& profile);
  void streams(DeviceProfile& profile, NumberFormat numbers);
  void products(DeviceProfile& profile, NumberFormat numbers);
  void attention(DeviceProfile& profile, NumberFormat numbers);

  Stopwatch stopwatch_;
  Stream stream_;
  Arena arena_{std::size_t{128} << 20};
};

}  // namespace trireme
