#include "tests/trainer/tools/plan/published_memory.h"

#include <map>

#include "parallel/pipeline/registry.h"
#include "parallel/pipeline/slots.h"

namespace trireme::published {
namespace {

// GiB in figures 1 and 7.
struct Published {
  double state, plain, with_both;
};
const std::map<std::string, Published> kPublished{{"k22-22B", {45.56, 59.25, 9.56}},
                                                  {"k22-175B", {45.56, 66.84, 12.35}},
                                                  {"k22-530B", {31.64, 114.02, 23.08}},
                                                  {"k22-1T", {32.96, 131.25, 26.56}}};

constexpr double kGiB = 1024.0 * 1024 * 1024;

// Parameters of a rank: matrices are divided over tensor ranks, the rest is not.
double of_model(const Workload& w) {
  const ModelConfig& m = w.spec.model;
  const auto tensor = static_cast<double>(w.mesh.tensor);
  const auto hidden = static_cast<double>(m.hidden_size);
  const double block =
      hidden * static_cast<double>(4 * m.hidden_size + 2 * m.intermediate_size) / tensor +
      2 * hidden;
  const double embedding = hidden * (static_cast<double>(m.vocab_size) / tensor +
                                     static_cast<double>(w.spec.training.seq_len));
  return (static_cast<double>(m.num_hidden_layers) * block + embedding) /
         static_cast<double>(w.mesh.pipeline);
}

// Layers' worth of activations of a micro-batch that the first rank holds at most.
double layers_held(const Workload& w) {
  const Schedule schedule =
      make_schedule(w.spec.parallelism.schedule,
                    {static_cast<int>(w.mesh.pipeline), static_cast<int>(w.spec.micro_batches),
                     static_cast<int>(w.spec.parallelism.virtual_stages)});
  const double each =
      static_cast<double>(w.spec.model.num_hidden_layers) / static_cast<double>(schedule.stages);
  return each * peak_in_flight(schedule.ranks.front());
}

}  // namespace

std::vector<Memory> korthikanti_memory(const std::vector<Run>& runs) {
  std::vector<Memory> all;
  for (const Run& run : runs) {
    if (run.source.find("Korthikanti") == std::string::npos) continue;
    const Workload& w = run.work;
    const auto tensor = static_cast<double>(w.mesh.tensor);
    const ModelConfig& m = w.spec.model;
    const double sbh =
        static_cast<double>(w.spec.training.seq_len * w.spec.training.local_batch_size) *
        static_cast<double>(m.hidden_size);
    const double scores = 5 * static_cast<double>(m.num_attention_heads * w.spec.training.seq_len) /
                          static_cast<double>(m.hidden_size);
    const Published& published = kPublished.at(run.model);
    if (w.spec.parallelism.sequence) {
      all.push_back({run.model, "activations, sequence parallel and selective", published.with_both,
                     layers_held(w) * sbh * 34 / tensor / kGiB});
      continue;
    }
    constexpr double kBytes = 18;
    all.push_back(
        {run.model, "parameters and optimizer", published.state, of_model(w) * kBytes / kGiB});
    all.push_back({run.model, "activations, nothing recomputed", published.plain,
                   layers_held(w) * sbh * (10 + 24 / tensor + scores / tensor) / kGiB});
  }
  return all;
}

}  // namespace trireme::published
