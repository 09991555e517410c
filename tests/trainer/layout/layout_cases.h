#pragma once
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "tests/trainer/layout/trained_alone.h"
#include "trainer/config/run_config.h"

// The layouts that layout_test compares with one rank.
namespace trireme::tests {

enum class Family { kGpt2, kLlama, kQwen3, kOlmo2, kGemma3, kQwen3Moe, kGptOss, kGlm4Moe };

struct Case {
  Family family;
  bool tied;
  Recompute recompute;
  ParallelismConfig layout;
  std::int64_t micro_batches = 4;  // of a step, over all ranks
  bool reproducible = false;
  std::int64_t bucket = Sharing::kWholeStore;
  bool every_expert = false;  // computes every token: no rounding chooses another one
  std::int64_t seq = kSeq;
  std::int64_t heads = 4;  // of queries
  bool documents = true;
};

// Whether it must have the bits of one rank: without a tensor split every sum has the same terms in
// the same order, over data and context ranks where it is asked for.
bool is_exact(const Case& c);
ModelConfig model_of(const Case& c);
EngineSpec spec_of(const Case& c);
std::string name_of(const Case& c);
inline std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << name_of(c);
}

// Every product of the axes up to eight ranks, each with one family, tying and
// recomputation after the other, so that all pairs of choices occur.
std::vector<Case> all_cases();
// Data ranks in every product with the others up to eight ranks, replicated and sharded, in
// every ZeRO stage; sums in one order for those without a tensor split.
std::vector<Case> data_cases();
// Experts on several data ranks, with little and with ample memory for their rows, in every ZeRO
// stage, beside tensor and pipeline ranks.
std::vector<Case> expert_cases();
// Shared sequences by every method, beside tensor, pipeline and data ranks in every ZeRO stage:
// with and without documents, with windows (Gemma 3), and with fewer key-value heads than ranks.
std::vector<Case> context_cases();
// Sequences of several tiles, of which a rank has some or parts.
std::vector<Case> long_context_cases();
// Micro-batches of more tokens than an MLP that is recomputed has at a time: with biases and
// without, with a norm of the result, as shared experts, with weight gradients deferred.
std::vector<Case> chunk_cases();

}  // namespace trireme::tests
