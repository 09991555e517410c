#include "trainer/tools/plan/show/explain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "trainer/config/for_ranks.h"
#include "trainer/config/reader.h"

namespace trireme {
namespace {

struct ExplainCase {
  const char* name;
  int ranks;
  const char* gpu;
  std::string keys;  // appended to a small model's config
};

constexpr const char* kDense = R"(
[model]
vocab_size = 32000
hidden_size = 1024
intermediate_size = 4096
num_hidden_layers = 8
num_attention_heads = 8
num_key_value_heads = 4
)";
constexpr const char* kExperts = R"(
[model]
model_type = "qwen3_moe"
vocab_size = 32000
hidden_size = 1024
intermediate_size = 2048
moe_intermediate_size = 512
num_experts = 8
num_experts_per_tok = 2
num_hidden_layers = 8
num_attention_heads = 8
num_key_value_heads = 4
)";
constexpr const char* kTraining = R"(
[training]
seq_len = 2048
global_batch_size = 64
dtype = "bfloat16"
steps = 10
)";

RunPlan explained(const ExplainCase& of) {
  const std::string model = of.keys.find("[model]") == std::string::npos ? kDense : "";
  const ConfigText text{.name = of.name, .toml = model + kTraining + of.keys, .folder = "/"};
  const LoadedConfig loaded = for_ranks(read_config(text, {}, Purpose::kPlanning), of.ranks);
  RunConfig config = loaded.config;
  DeviceProfile profile = find_profile(of.gpu);
  config.job.device = profile.device().is_cuda() ? "cuda" : "cpu";
  if (!profile.device().is_cuda()) profile.cores = 2;
  return plan_run(config, profile, profile.device(), {.explain = true});
}

// Every inner node is the sum of its children.
void expect_sums(const PlanNode& node, const std::string& path) {
  if (node.children.empty()) return;
  double sum = 0;
  for (const PlanNode& child : node.children) {
    sum += child.amount;
    EXPECT_GE(child.amount, -1e-9 * std::abs(node.amount)) << path << "/" << child.name;
    expect_sums(child, path + "/" + child.name);
  }
  EXPECT_NEAR(sum, node.amount, 1e-9 * std::abs(node.amount)) << path;
}

const PlanNode* child_named(const PlanNode& node, std::string_view name) {
  const auto found = std::find_if(node.children.begin(), node.children.end(),
                                  [&](const PlanNode& child) { return child.name == name; });
  return found == node.children.end() ? nullptr : &*found;
}

double amount_of(const PlanNode& node, std::initializer_list<std::string_view> path) {
  const PlanNode* at = &node;
  for (const std::string_view name : path) {
    at = child_named(*at, name);
    if (at == nullptr) return 0;
  }
  return at->amount;
}

// The sum over the leaves.
template <class Part>
double sum_of_leaves(const PlanNode& node, const Part& part) {
  if (node.children.empty()) return part(node);
  double sum = 0;
  for (const PlanNode& child : node.children) sum += sum_of_leaves(child, part);
  return sum;
}

class ExplainSums : public testing::TestWithParam<ExplainCase> {};

TEST_P(ExplainSums, AreThoseOfThePlan) {
  const RunPlan plan = explained(GetParam());
  ASSERT_TRUE(plan.explanation);
  const PlanNode& time = plan.explanation->time;
  const StepEstimate& step = plan.estimate;
  const TimeParts& parts = step.parts;
  const double close = 1e-9 * step.seconds;
  expect_sums(time, "step");
  EXPECT_NEAR(time.amount, step.seconds, close);
  EXPECT_NEAR(amount_of(time, {"forward"}) + amount_of(time, {"recomputation"}) +
                  amount_of(time, {"backward"}),
              parts.products + parts.attention + parts.streams, close);
  EXPECT_NEAR(amount_of(time, {"exposed communication"}) + amount_of(time, {"optimizer"}),
              parts.messages + parts.gradients + parts.optimizer, close);
  EXPECT_NEAR(amount_of(time, {"offload"}), parts.offload, close);
  EXPECT_NEAR(amount_of(time, {"pipeline bubble"}), parts.bubble, close);
  EXPECT_NEAR(amount_of(time, {"slowest node"}), parts.waiting, close);

  const PlanNode& memory = plan.explanation->memory;
  expect_sums(memory, "memory");
  EXPECT_EQ(memory.amount, static_cast<double>(plan.layout.most_device_bytes()));
  const PipelinePlace& place =
      plan.layout.places.at(static_cast<std::size_t>(plan.explanation->largest_place));
  for (const auto& [name, bytes] : place.step.memory.classes()) {
    EXPECT_EQ(amount_of(memory, {name}), static_cast<double>(bytes)) << name;
  }
}

const std::string kPipelined = R"(
[parallelism]
pipeline = 4
virtual_stages = 2
)";

INSTANTIATE_TEST_SUITE_P(
    Explain, ExplainSums,
    testing::Values(
        ExplainCase{"Dense", 1, "H100", ""},
        ExplainCase{"Selective", 4, "H100", "[activation_checkpoint]\nmode = \"selective\"\n"},
        ExplainCase{"Full", 2, "A100-80G",
                    "[parallelism]\ntensor = 2\nsequence = true\n[activation_checkpoint]\nmode = "
                    "\"full\"\n"},
        ExplainCase{"Zero0", 4, "H100", "[parallelism]\nzero = 0\n"},
        ExplainCase{"Zero2", 4, "H100", "[parallelism]\nzero = 2\n"},
        ExplainCase{"Zero3", 8, "H100", "[parallelism]\nzero = 3\ntensor = 2\n"},
        ExplainCase{"Experts", 8, "H100",
                    std::string(kExperts) +
                        "[parallelism]\nexpert = 4\n[activation_checkpoint]\nmode = "
                        "\"full\"\n"},
        ExplainCase{"GPipe", 8, "H100", "[parallelism]\npipeline = 4\nschedule = \"GPipe\"\n"},
        ExplainCase{"OneFOneB", 4, "H100", "[parallelism]\npipeline = 4\nschedule = \"1F1B\"\n"},
        ExplainCase{"Interleaved", 4, "H100", kPipelined + "schedule = \"Interleaved1F1B\"\n"},
        ExplainCase{"ZeroBubble", 4, "H100", "[parallelism]\npipeline = 4\nschedule = \"ZBH1\"\n"},
        ExplainCase{"Context", 8, "H100",
                    "[parallelism]\ncontext = 2\ncontext_method = \"ring\"\n"},
        ExplainCase{"Offload", 2, "H200",
                    "[activation_checkpoint]\noffload = true\n[optimizer]\noffload = true\n"},
        ExplainCase{"Muon", 4, "H100", "[parallelism]\ntensor = 2\n[optimizer]\nname = \"Muon\"\n"},
        ExplainCase{"SharedCores", 4, "CPU", "[parallelism]\npipeline = 2\n"}),
    [](const testing::TestParamInfo<ExplainCase>& of) { return std::string(of.param.name); });

// The leaves count the FLOPs that the planner counts on its own.
TEST(Explain, LeavesHaveAllFlopsOfAStep) {
  for (const char* mode : {"none", "full"}) {
    const RunPlan plan = explained(
        {"flops", 2, "H100", std::string("[activation_checkpoint]\nmode = \"") + mode + "\"\n"});
    const PlanNode& time = plan.explanation->time;
    const auto flops = [](const PlanNode& leaf) {
      return leaf.name == "matmul" ? leaf.flops : 0.0;
    };
    const double of_rank = plan.layout.places.front().step.issued.matmul;
    EXPECT_NEAR(sum_of_leaves(time, flops), of_rank, 1e-9 * of_rank) << mode;
  }
}

TEST(Explain, RecomputationIsWhatTheBackwardHasMore) {
  const char* const full = "[activation_checkpoint]\nmode = \"full\"\n";
  const PlanNode with = explained({"full", 1, "H100", full}).explanation->time;
  const PlanNode without = explained({"none", 1, "H100", ""}).explanation->time;
  EXPECT_EQ(child_named(without, "recomputation"), nullptr);
  EXPECT_NEAR(amount_of(with, {"backward"}), amount_of(without, {"backward"}), 1e-9 * with.amount);
  // All but the last product of a block.
  const double again = amount_of(with, {"recomputation", "blocks", "matmul"});
  const double once = amount_of(with, {"forward", "blocks", "matmul"});
  EXPECT_GT(again, 0.6 * once);
  EXPECT_LT(again, once);
}

TEST(Explain, EmbeddingAndHeadAreApartWithoutAPipeline) {
  const PlanNode time = explained({"ends", 1, "H100", ""}).explanation->time;
  for (const char* pass : {"forward", "backward"}) {
    const PlanNode& embedding = *child_named(*child_named(time, pass), "embedding");
    ASSERT_EQ(embedding.children.size(), 1U) << pass;
    EXPECT_TRUE(embedding.children.front().name.starts_with("embedding"));
    EXPECT_EQ(child_named(*child_named(*child_named(time, pass), "head"), "embedding"), nullptr);
  }
  EXPECT_GT(amount_of(time, {"forward", "head", "matmul"}), 0);
}

TEST(Explain, MemoryIsDividedByStateAndLayer) {
  const PlanNode memory = explained({"memory", 4, "H100", ""}).explanation->memory;
  // 8 layers' MLPs [4096, 1024], in bfloat16.
  EXPECT_EQ(amount_of(memory, {"weights", "blocks", "mlp.down.weight"}), 8.0 * 4096 * 1024 * 2);
  EXPECT_EQ(amount_of(memory, {"optimizer", "adam.m"}), amount_of(memory, {"optimizer", "adam.v"}));
  EXPECT_GT(amount_of(memory, {"optimizer", "adam.m"}), 0);
  const PlanNode& slots = child_named(memory, "activations")->children.front();
  // The rest is small: the kinds of layers are what a micro-batch saves.
  EXPECT_GT(amount_of(slots, {"blocks"}), 0.5 * slots.amount);
  EXPECT_LT(amount_of(slots, {"others"}), 0.05 * slots.amount);
}

TEST(Explain, ExpertsHaveOneNameInAllBlocks) {
  const PlanNode memory =
      explained({"experts", 4, "H100", std::string(kExperts) + "[parallelism]\nexpert = 4\n"})
          .explanation->memory;
  // Two of 8 experts [512, 1024] on a rank, in 8 layers.
  EXPECT_EQ(amount_of(memory, {"weights", "experts", "mlp.experts.up.weight"}),
            2.0 * 8 * 512 * 1024 * 2);
}

TEST(Explain, TextFitsIn120ColumnsAndFoldsSmallNodes) {
  const RunPlan plan =
      explained({"text", 4, "H100", kPipelined + "schedule = \"Interleaved1F1B\"\n"});
  const std::string text = explain_text(plan);
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    EXPECT_LE(end - begin, 120U) << text.substr(begin, end - begin);
    begin = end + 1;
  }
  EXPECT_NE(text.find("others below 1 %"), std::string::npos) << text;
  const nlohmann::ordered_json json = explain_json(plan);
  EXPECT_EQ(json["time"]["tree"]["seconds"].get<double>(), plan.explanation->time.amount);
  EXPECT_EQ(json["memory"]["tree"]["bytes"].get<double>(), plan.explanation->memory.amount);
}

}  // namespace
}  // namespace trireme
