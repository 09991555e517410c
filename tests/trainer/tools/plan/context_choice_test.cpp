// The default method of context parallelism is the one that the planner finds fastest.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/device/imagined.h"
#include "parallel/context/context_cost.h"
#include "trainer/config/for_ranks.h"
#include "trainer/config/reader.h"
#include "trainer/tools/plan/run_plan.h"

namespace trireme {
namespace {

struct Shape {
  std::string flavor;
  std::int64_t context = 2, tensor = 1;
};
const std::vector<Shape> kShapes{{"llama3-8b", 2},    {"llama3-8b", 4},    {"llama3-8b", 8},
                                 {"llama3-8b", 2, 2}, {"llama3-8b", 4, 2}, {"llama2-7b", 2},
                                 {"llama2-7b", 4},    {"llama2-7b", 8},    {"qwen3-32b", 8},
                                 {"llama3-8b", 16},   {"llama3-70b", 8, 8}};

RunConfig config_with(const Shape& shape, const std::string& more) {
  const LoadedConfig loaded =
      read_config({"test",
                   "[model]\nflavor = \"" + shape.flavor +
                       "\"\n[data]\ntrain = [{ path = \"nowhere\" }]\n"
                       "[training]\nsteps = 10\nseq_len = 65536\nglobal_batch_size = 1\n"
                       "dtype = \"bfloat16\"\n[activation_checkpoint]\nmode = \"selective\"\n"
                       "[parallelism]\nzero = 1\ncontext = " +
                       std::to_string(shape.context) +
                       "\ntensor = " + std::to_string(shape.tensor) + "\n" + more,
                   "/"},
                  {});
  return for_ranks(loaded, shape.context * shape.tensor).config;
}

double seconds_of(const RunConfig& config) {
  return estimate_step(workload_of(config), find_profile("H100")).seconds;
}

// Bytes that a rank sends for attention alone, which is all that grows with the sequence.
double sent(const RunConfig& config) {
  double bytes = 0;
  const LayoutPlan plan = plan_layout(config, imagined_gpu());
  for (const auto& [group, sent] : plan.places.front().step.sent) {
    if (group.starts_with("context")) bytes += sent.bytes;
  }
  return bytes;
}

ops::Heads heads_of(const RunConfig& config) {
  const ModelConfig& model = config.model;
  return heads_of_rank({model.num_attention_heads, model.num_key_value_heads, model.head_dim},
                       config.parallelism.tensor);
}

std::vector<std::string> choices_of(const RunConfig& config) {
  const ParallelismConfig& layout = config.parallelism;
  const ops::Heads heads = heads_of(config);
  std::vector<std::string> all{"context_method = \"all_gather\""};
  for (const std::int64_t ranks : ranks_of_heads(heads)) {
    if (ranks == layout.context) all.push_back("context_method = \"ulysses\"");
    if (ranks == 1 || ranks >= layout.context || layout.context % ranks != 0) continue;
    all.push_back("context_method = \"all_gather\"\ncontext_ulysses = " + std::to_string(ranks));
  }
  return all;
}

TEST(ContextChoice, the_default_is_the_fastest_of_all_by_the_planner) {
  for (const Shape& shape : kShapes) {
    const RunConfig chosen = config_with(shape, "");
    const double own = seconds_of(chosen);
    for (const std::string& other : choices_of(chosen)) {
      const double seconds = seconds_of(config_with(shape, other));
      EXPECT_LE(own, 1.01 * seconds) << shape.flavor << ", context " << shape.context << ", tensor "
                                     << shape.tensor << ": " << other;
    }
  }
}

TEST(ContextChoice, what_it_counts_is_what_the_planned_step_sends) {
  for (const Shape& shape : kShapes) {
    const RunConfig chosen = config_with(shape, "");
    const ModelConfig& model = chosen.model;
    const ops::Heads heads = heads_of(chosen);
    const double tokens = 65536.0 / static_cast<double>(shape.context);
    for (const std::string& words : choices_of(chosen)) {
      const RunConfig config = config_with(shape, words);
      const ParallelismConfig& layout = config.parallelism;
      const double counted =
          2 * tokens * static_cast<double>(model.num_hidden_layers) *
          received_per_token({layout.context_method, ulysses_ranks(layout)}, heads, shape.context);
      // Log-sum-exps are exchanged too: 4 bytes a head beside 2 x 128 x 2 of its query and output.
      EXPECT_NEAR(sent(config), counted, 0.03 * counted)
          << shape.flavor << ", context " << shape.context << ", tensor " << shape.tensor << ": "
          << words;
    }
  }
}

}  // namespace
}  // namespace trireme
