#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/format/names.h"
#include "checkpoint/store/saver.h"
#include "data/left_out.h"
#include "data/sequencer.h"
#include "trainer/engine/engine.h"
#include "trainer/loop/loss_scaler.h"
#include "trainer/loop/step_guard.h"

namespace trireme {

// Parameters as checkpoint pieces, "model/NAME", or "ema/NAME" to load their averages instead.
// `masters`: of the store's masters.
std::vector<checkpoint::Piece> weight_pieces(const ParamStore& params, const HostMirror& masters,
                                             std::string_view prefix = checkpoint::kWeightsPrefix);
// An engine's masters and its optimizer's state, "adam.m/NAME", "adam.v/NAME" and "ema/NAME": every
// tensor that a run resumes from. They are in its host_state(): download before storing, upload
// after loading.
std::vector<checkpoint::Piece> state_pieces(Engine& engine);
// Of a run that resumes: training.ema may have been 0, or be 0 now.
inline const checkpoint::Match kMatchOfState{.optional = std::string(checkpoint::kAveragePrefix)};

// Where a run stands: what it needs, in addition to the tensors, to resume exactly.
struct TrainState {
  std::int64_t step = 0;      // optimizer steps done
  std::uint64_t samples = 0;  // trained on
  data::LeftOut left_out;     // samples skipped so far or by data.skip
  std::int64_t tokens = 0;
  double loss = 0;  // of the last step
  double grad_norm = 0;
  std::string weights;        // their hash after the last step
  std::int64_t attempts = 0;  // at the next step, so far; not stored

  // The first sample of the training order that is neither trained on nor left out.
  std::uint64_t position() const { return left_out.sample(samples); }
  // One past the last sample trained on.
  std::uint64_t end() const { return samples == 0 ? 0 : left_out.sample(samples - 1) + 1; }
  // From the first to one past the last of the next `count` samples; may include some left out.
  data::SampleRange next(std::uint64_t count) const {
    return {position(), left_out.sample(samples + count - 1) + 1};
  }
};

// What decides whether a step is accepted; a checkpoint keeps it with the TrainState.
struct RecoveryState {
  explicit RecoveryState(const TrainingConfig& config) : guard(config), scaler(config) {}

  void write(nlohmann::json& scalars) const;
  // `counts`: also the counts of skips, rollbacks and overflows, which a rollback keeps. Throws
  // CheckpointError naming the checkpoint and the key.
  void read(const checkpoint::Loaded& loaded, bool counts);

  StepGuard guard;
  LossScaler scaler;
};

// The hash of all the engine's parameters (weights_hash), as it is printed and stored; downloads
// them.
std::string weights_hash_text(Engine& engine, Communicator& ranks);

// For a checkpoint of step 0 with weights from elsewhere: no samples, unknown loss. `config`: TOML.
checkpoint::Snapshot initial_snapshot(std::string config);
// The JSON parts of a checkpoint, written and read. A `TrainState` read back has the same bits, but
// of left_out only what lies before its position. Throws CheckpointError naming the checkpoint and
// the key.
void write_state(const TrainState& state, const data::SampleSource& source,
                 checkpoint::Manifest& manifest);
TrainState read_state(const checkpoint::Loaded& loaded);
// `config` of a run as it was in the last step of its checkpoint: with the sequence length and
// rope_scaling of that step (sequence_length.h).
RunConfig config_of_last_step(const RunConfig& config, const std::filesystem::path& folder,
                              const checkpoint::Manifest& manifest);
// Throws CheckpointError unless the engine's weights have the hash stored in the checkpoint.
void require_weights(const checkpoint::Loaded& loaded, Engine& engine, Communicator& ranks);
// Whether it has the exponential average of its weights.
bool has_average(const checkpoint::Manifest& manifest);
std::string data_fingerprint(const checkpoint::Loaded& loaded);

}  // namespace trireme
