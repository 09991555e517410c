#pragma once
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "parallel/comm/flight_recorder.h"
#include "parallel/data/grad_norm.h"
#include "parallel/optimizer/optimizer.h"
#include "parallel/optimizer/staging.h"

namespace trireme {

// An optimizer over this rank's parameter shards: it holds their state and updates them (ZeRO-1,
// Rajbhandari et al. 2020), except buffers. On a rank that owns everything it is the plain
// optimizer. It may also keep an exponential moving average of the weights, which training does not
// read.
class ShardedOptimizer {
 public:
  struct Options {
    OptimizerOptions optimizer = {};
    double max_norm = 1;     // 0: no clipping
    std::uint64_t seed = 0;  // of stochastic rounding
    double ema = 0;          // decay of the weights' average; 0: none
  };
  struct Ranks {
    GradNorm::Ranks norm;
    UpdateRanks update;
    FlightRecorder* recorder = nullptr;  // records the phases of an update; may be null
  };
  // State of one name, persistent across steps: that of all shards that have it, contiguous.
  struct State {
    static constexpr std::size_t kAverage = UpdateTensors::kMaxStates;

    std::string name;   // name of Optimizer::State, or kAverageName
    std::size_t index;  // in UpdateTensors::state of these shards; kAverage: their average
    Tensor flat = {};
    std::vector<ParamShard*> shards = {};  // the store's

    const Tensor& of(const ParamShard& shard) const {
      return index == kAverage ? shard.average : shard.state[index];
    }
  };
  static constexpr const char* kAverageName = "ema";
  // Permanently allocates the states of the store's shards in `state` and temporaries in
  // `workspace`. The store is allocated; `chunks` are those of the whole model (see GradNorm). If
  // `state` or the store's masters are in host memory and the values on a device, updates stream
  // them in chunks (Staging) through buffers allocated temporarily in `workspace`. The store, which
  // stays allocated, and both arenas outlive this object.
  ShardedOptimizer(ParamStore& store, const NormChunks& chunks, Ranks ranks, const Options& options,
                   Arena& state, Arena& workspace);

  // Clips the owned, reduced gradients to max_norm by their global norm and updates the owned
  // parameters. `update` counts from 1 over the whole run. The update is skipped if the norm is not
  // finite or above `norm_limit`. The gradients are those of `loss_scale` times the loss; norm and
  // update are unscaled. The average follows the updated masters; a skipped update skips it too.
  void step(Stream& stream, double learning_rate, std::int64_t update,
            double norm_limit = std::numeric_limits<double>::infinity(), double loss_scale = 1);

  // Recomputes the owned values from loaded masters, as after update `update`.
  void publish_masters(Stream& stream, std::int64_t update);
  // Sets the average to the masters, where a run starts. Queued; nothing without an average.
  void start_average(Stream& stream);

  // [1], multiplies the gradients of the last step; NaN: it was skipped.
  Tensor grad_scale() const { return scale_; }
  // [1], norm of the last step before clipping; synchronize the stream before reading.
  Tensor grad_norm() const { return norm_; }
  const std::vector<State>& states() const { return states_; }

 private:
  void take_states(DType accumulator, Arena& arena);
  State& state_named(const std::string& name, std::size_t index, DType dtype);
  void update_average(Stream& stream);
  template <class Body>
  void with_staging(Stream& stream, const Body& body);

  FlightRecorder* recorder_;
  Options options_;
  Arena& workspace_;
  GradNorm squares_;
  std::unique_ptr<Optimizer> optimizer_;
  std::span<ParamShard> shards_;   // the store's
  std::span<ParamShard> trained_;  // without those of buffers
  std::vector<State> states_;
  std::optional<Staging> staging_;
  Tensor norm_, scale_;
};

}  // namespace trireme
