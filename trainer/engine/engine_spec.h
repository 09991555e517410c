#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "model/params/param_store.h"
#include "model/stage/stage.h"
#include "trainer/config/run_config.h"

namespace trireme {

// A config, and what the engine derives from it.
struct EngineSpec : RunConfig {
  DType compute = DType::kF32;
  MatmulPrecision precision = MatmulPrecision::kNative;  // of the blocks' matmul operands
  std::int64_t micro_batches = 1;                        // of this rank in a full step
  std::vector<std::int64_t> fewer_micro_batches = {};    // in shorter steps, ascending
  std::int64_t bucket = Sharing::kWholeStore;            // gradient bucket, elements
  std::int64_t sample_length = 0;  // longest generated text with its prompt, tokens; 0: none
  std::int64_t balanced_at = 0;    // seq_len for which pipeline stages are balanced; 0: this one
};
// Of the first sequence length; of each of sequence_lengths(config), with the same pipeline stages.
EngineSpec engine_spec(const RunConfig& config);
std::vector<EngineSpec> engine_specs(const RunConfig& config);

// Whether context ranks divide the tokens of sequences among themselves. Otherwise each has whole
// ones, and they divide attention's work alone, for the bits of one rank.
bool divides_sequences(const RunConfig& config);

DType compute_dtype(const std::string& name);  // "float32", ...

// The device that job.device names; "auto" is a GPU if there is one. The ranks of a host use its
// GPUs round-robin. Throws EnvironmentError if this build or machine has no such device.
Device open_device(const std::string& name, int local_rank);

}  // namespace trireme
