#pragma once
#include "model/tensor/arena.h"
#include "trainer/tools/plan/device_profile.h"
#include "trainer/tools/plan/least_squares.h"
#include "trainer/tools/plan/stopwatch.h"
#include "trainer/tools/plan/streams.h"

namespace trireme {

// What CPU ranks reach with the trainer's own operations, in float32 and in bfloat16, all ranks at
// the same time. Operations find their tensors as in a step: not where they have just been used.
class ComputeCalibration {
 public:
  // `ranks` outlives it.
  explicit ComputeCalibration(Communicator& ranks) : stopwatch_(ranks) {}

  // The profile's memory, launch and rates.
  void fill(DeviceProfile& profile);

 private:
  // A set of tensors, and as many copies of it as are more than a core's cache holds.
  using Set = std::vector<std::pair<Shape, DType>>;
  class Turns;
  using Work = std::function<void(const std::vector<Tensor>&)>;
  // Of work on such a set, on its copies in turns.
  double seconds(const Set& set, const Work& work);

  void memory(DeviceProfile& profile);
  void streams(DeviceProfile& profile, Numbers numbers);
  void products(DeviceProfile& profile, Numbers numbers);
  void attention(DeviceProfile& profile, Numbers numbers);

  Stopwatch stopwatch_;
  Stream stream_;
  Arena arena_{std::size_t{128} << 20};
};

}  // namespace trireme
