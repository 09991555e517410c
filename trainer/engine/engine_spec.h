#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "model/stage/stage.h"
#include "parallel/data/compression/gradient_compression.h"
#include "parallel/data/sharded_optimizer.h"
#include "trainer/config/run_config.h"

namespace trireme {

// Everything that determines the computation of a step and its memory.
struct EngineSpec {
  ModelConfig model;
  DType compute = DType::kF32;
  MatmulPrecision precision = MatmulPrecision::kNative;  // precision of the blocks' matmul operands
  Recompute recompute = Recompute::kNone;
  std::int64_t seq_len = 0;
  bool documents = true;                               // false: no batch has a document mask
  std::int64_t micro_batch = 1;                        // sequences per micro-batch
  std::int64_t micro_batches = 1;                      // of this rank in a full step
  std::vector<std::int64_t> fewer_micro_batches = {};  // in shorter steps, ascending
  std::string schedule = "1F1B";
  int virtual_stages = 1;
  std::vector<std::int64_t> layers_per_stage = {};  // empty: balanced
  bool sequence = false;                            // sequence parallelism
  int zero = 1;                                     // ZeRO stage
  std::int64_t bucket = Sharing::kWholeStore;       // gradient bucket, elements
  bool cuda_graphs = false;                         // replay forward and backward from a CUDA graph
  bool reproducible = false;  // gradient sums do not depend on the number of ranks and stages
  CompressionOptions compression = {};  // of gradients, between replicas
  // To pinned host memory; no effect on the CPU.
  bool offload_activations = false;
  bool offload_optimizer = false;
  std::int64_t sample_length = 0;  // longest generated text with its prompt, tokens; 0: none
  ShardedOptimizer::Options optimizer;
};
EngineSpec engine_spec(const RunConfig& config);

DType compute_dtype(const std::string& name);  // "float32", ...

// The device that job.device names; "auto" is a GPU if there is one. The ranks of a host use its
// GPUs round-robin. Throws EnvironmentError if this build or machine has no such device.
Device open_device(const std::string& name, int local_rank);

}  // namespace trireme
