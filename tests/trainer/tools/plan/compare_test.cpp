#include "trainer/tools/plan/show/compare.h"

#include <gtest/gtest.h>

#include <cmath>

#include "trainer/config/for_ranks.h"
#include "trainer/config/reader.h"

namespace trireme {
namespace {

NamedPlan plan_of(const std::string& name, int ranks, const std::string& keys,
                  const PlanOptions& options) {
  const ConfigText text{.name = name,
                        .toml =
                            "[model]\nflavor = \"llama3-8b\"\n"
                            "[training]\nseq_len = 4096\nglobal_batch_size = 64\n"
                            "dtype = \"bfloat16\"\nsteps = 100\n" +
                            keys,
                        .folder = "/"};
  RunConfig config = for_ranks(read_config(text, {}, Purpose::kPlanning), ranks).config;
  config.job.device = "cuda";
  const DeviceProfile profile = find_profile("H100");
  return {name, plan_run(config, profile, profile.device(), options)};
}

const ComparedRow* row_of(const std::vector<ComparedRow>& rows, std::string_view group,
                          std::string_view name) {
  for (const ComparedRow& row : rows) {
    if (row.group == group && row.name == name) return &row;
  }
  return nullptr;
}

TEST(Compare, RowsAreTheFiguresOfBothPlans) {
  const PlanOptions options{.price = 2};
  const NamedPlan a = plan_of("a", 16, "[parallelism]\ntensor = 4\n", options);
  const NamedPlan b = plan_of("b", 32, "[parallelism]\ntensor = 2\npipeline = 2\n", options);
  const std::vector<ComparedRow> rows = compared_rows(a.plan, b.plan, options);
  const auto expect = [&](const char* group, const char* name, double of_a, double of_b) {
    const ComparedRow* const row = row_of(rows, group, name);
    ASSERT_NE(row, nullptr) << group << " " << name;
    EXPECT_EQ(row->a, of_a) << name;
    EXPECT_EQ(row->b, of_b) << name;
    EXPECT_EQ(row->difference(), of_b - of_a) << name;
  };
  expect("step", "time", a.plan.estimate.seconds, b.plan.estimate.seconds);
  expect("speed", "MFU", a.plan.mfu, b.plan.mfu);
  expect("speed", "ranks", 16, 32);
  expect("memory", "largest rank", static_cast<double>(a.plan.layout.most_device_bytes()),
         static_cast<double>(b.plan.layout.most_device_bytes()));
  expect("run", "cost", a.plan.cost, b.plan.cost);
  expect("run", "days", a.plan.seconds / 86400, b.plan.seconds / 86400);
  EXPECT_EQ(row_of(rows, "traffic", "pipeline")->a, 0);
  EXPECT_GT(row_of(rows, "traffic", "pipeline")->b, 0);
  EXPECT_GT(row_of(rows, "step", "pipeline bubble")->b, 0);
  EXPECT_EQ(row_of(compared_rows(a.plan, b.plan, {}), "run", "cost"), nullptr);
  // Parts and classes are whole.
  double steps = 0, bytes = 0;
  for (const ComparedRow& row : rows) {
    if (row.group == "step" && row.name != "time") steps += row.b;
    if (row.group == "memory" && row.name != "largest rank" && row.name != "available" &&
        row.name != "host, per rank") {
      bytes += row.b;
    }
  }
  EXPECT_NEAR(steps, b.plan.estimate.seconds, 1e-9 * steps);
  EXPECT_EQ(bytes, static_cast<double>(b.plan.layout.most_device_bytes()));
}

TEST(Compare, TextNamesTheKeysThatDiffer) {
  const NamedPlan a = plan_of("a.toml", 16, "[parallelism]\ntensor = 4\n", {});
  const NamedPlan b = plan_of("b.toml", 16, "[parallelism]\ntensor = 2\n", {});
  const std::string text = comparison_text(a, b, {});
  EXPECT_NE(text.find("parallelism.tensor"), std::string::npos) << text;
  EXPECT_NE(text.find("4 -> 2"), std::string::npos) << text;
  const std::string same = comparison_text(a, a, {});
  EXPECT_NE(same.find("the configs have the same values"), std::string::npos) << same;
  EXPECT_EQ(same.find('+'), std::string::npos) << same;
  const nlohmann::ordered_json json = comparison_json(a, b, {});
  // tensor, and data_shard that follows from it.
  EXPECT_EQ(json["keys"].size(), 2U) << json["keys"];
  EXPECT_EQ(json["rows"].size(), compared_rows(a.plan, b.plan, {}).size());
  EXPECT_EQ(json["b"]["plan"]["step"]["seconds"].get<double>(), b.plan.estimate.seconds);
  for (const auto& row : json["rows"]) {
    EXPECT_EQ(row["ratio"].is_null(), row["a"].get<double>() == 0) << row;
  }
}

}  // namespace
}  // namespace trireme
