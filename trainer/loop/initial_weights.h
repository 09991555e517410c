#pragma once
#include "checkpoint/store/store.h"
#include "trainer/config/run_config.h"
#include "trainer/engine/engine.h"

namespace trireme {

struct InitialWeights {
  checkpoint::Loaded from;
  bool upcycled = false;  // each expert is a copy of its layer's MLP there (upcycling.h)
};

// Loads the engine's weights, and nothing else, from checkpoint.initial_load_path: a checkpoint of
// any layout, the newest good one of a run folder, or a Hugging Face model folder. A checkpoint of
// a dense model is upcycled to a model with experts. RoPE may become scaled from the length that
// the checkpoint was trained at. Collective over `ranks`, those of the run. Throws CheckpointError
// naming what is damaged, or how the model differs unless checkpoint.allow_changes allows it.
InitialWeights load_initial_weights(const RunConfig& config, Engine& engine, Communicator& ranks);

}  // namespace trireme
