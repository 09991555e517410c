#pragma once
#include "checkpoint/store.h"
#include "trainer/config/run_config.h"
#include "trainer/engine/engine.h"

namespace trireme {

// Fills the engine's weights, and nothing else, from checkpoint.initial_load_path: a
// checkpoint, or a run folder's newest good one, whatever layout wrote it, or the folder of a
// Hugging Face model. Collective over `ranks`, those of the run. Throws CheckpointError naming what
// is damaged, or what the model there has otherwise, unless checkpoint.allow_changes has it.
checkpoint::Loaded load_initial_weights(const RunConfig& config, Engine& engine,
                                        Communicator& ranks);

}  // namespace trireme
