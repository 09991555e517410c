#pragma once
#include <string>
#include <vector>

#include "checkpoint/store.h"
#include "data/left_out.h"
#include "data/sequencer.h"
#include "trainer/engine/engine.h"
#include "trainer/loop/loss_scaler.h"
#include "trainer/loop/step_guard.h"

namespace trireme {

// Parameters as checkpoint pieces, "model/NAME". `masters` are the store's, flat, in memory of
// the host.
std::vector<checkpoint::Piece> weight_pieces(const ParamStore& params, const Tensor& masters);
// An engine's masters and its optimizer's moments, "adam.m/NAME" and "adam.v/NAME": all
// that a run continues from. They lie in its host_state(): download it before they are
// stored, upload it once they were loaded.
std::vector<checkpoint::Piece> state_pieces(Engine& engine);

// Where a run stands: what, beside the pieces, it takes to go on exactly.
struct RunProgress {
  std::int64_t step = 0;      // optimizer steps done
  std::uint64_t samples = 0;  // trained on
  data::LeftOut left_out;     // all those that are not
  std::int64_t tokens = 0;
  double loss = 0;  // of the last step
  double grad_norm = 0;
  std::string weights;  // their hash after the last step

  // The first sample of the training order that is neither trained on nor left out.
  std::uint64_t position() const { return left_out.sample(samples); }
  // The end of those trained on.
  std::uint64_t end() const { return samples == 0 ? 0 : left_out.sample(samples - 1) + 1; }
  // From the first of the next `count` samples to after the last; what is left out may lie inside.
  data::SampleRange next(std::uint64_t count) const {
    return {position(), left_out.sample(samples + count - 1) + 1};
  }
};

// The hash of all the engine's parameters (weights_hash), as it is printed and stored; they
// are downloaded for it.
std::string weights_hash_text(Engine& engine, Communicator& ranks);
std::string weights_hash_text(std::uint64_t hash);

// The JSON parts of a checkpoint, and back. A `RunProgress` read back has the same bits,
// but of what is left out only what lies before its position.
// Throws CheckpointError naming the checkpoint and the key.
void write_progress(const RunProgress& progress, const data::SampleSource& source,
                    checkpoint::Snapshot& snapshot);
// Throws CheckpointError unless the weights are those the checkpoint was made of.
void require_weights(const checkpoint::Loaded& loaded, Engine& engine, Communicator& ranks);
RunProgress read_progress(const checkpoint::Loaded& loaded);
// As StepGuard::read and LossScaler::read, with the errors of the above.
void read_guard(StepGuard& guard, const checkpoint::Loaded& loaded, bool counts);
void read_scaler(LossScaler& scaler, const checkpoint::Loaded& loaded, bool counts);
std::string data_fingerprint(const checkpoint::Loaded& loaded);

}  // namespace trireme
