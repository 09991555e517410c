#include "trainer/tools/report/run_data.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "model/base/error.h"
#include "tests/trainer/tools/report/sample_run.h"

namespace trireme {
namespace {

bool complains(const RunData& run, const std::string& of) {
  for (const std::string& complaint : run.complaints) {
    if (complaint.find(of) != std::string::npos) return true;
  }
  return false;
}

TEST(ReadRun, a_whole_run_gives_no_complaint) {
  const SampleRun sample;
  sample.write("metrics.jsonl", "{\"step\":1,\"loss\":3.5}\n{\"step\":2,\"loss\":3.25}\n");
  sample.write("events.jsonl", "{\"event\":\"start\",\"step\":0}\n");
  sample.write("config.toml", "[model]\nflavor = \"gpt2-124m\"\n[job]\ndescription = \"d\"\n");
  sample.write("checkpoints/step-00000002/manifest.json", "{}");
  sample.write("checkpoints/step-00000002/shard-0.h5", std::string(1000, 'x'));
  sample.write("checkpoints/step-00000003.partial-1/shard-0.h5", "x");
  sample.write("checkpoints/latest", "step-00000002\n");
  const RunData run = read_run(sample.path());
  EXPECT_TRUE(run.complaints.empty()) << run.complaints.front();
  EXPECT_EQ(run.series("loss").steps, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(run.series("loss").values, (std::vector<double>{3.5, 3.25}));
  EXPECT_TRUE(run.series("nothing").empty());
  EXPECT_EQ(run.events.size(), 1u);
  EXPECT_EQ(run.model, "gpt2-124m");
  EXPECT_EQ(run.description, "d");
  ASSERT_EQ(run.checkpoints.size(), 1u);
  EXPECT_EQ(run.checkpoints[0].step, 2);
  EXPECT_EQ(run.checkpoints[0].bytes, 1002u);
  EXPECT_TRUE(run.checkpoints[0].is_latest);
}

TEST(ReadRun, damage_is_named_and_the_rest_is_read) {
  const SampleRun sample;
  sample.write("metrics.jsonl",
               "{\"step\":1,\"loss\":null}\ngarbage\n{\"loss\":1}\n{\"step\":2,\"loss\":2}\n{\"st");
  sample.write("config.toml", "[model]\nflavor = \n");
  sample.write("checkpoints/step-00000002/shard-0.h5", "x");
  const RunData run = read_run(sample.path());
  EXPECT_EQ(run.series("loss").steps, (std::vector<std::int64_t>{1, 2}));
  EXPECT_TRUE(std::isnan(run.series("loss").values[0]));
  EXPECT_TRUE(complains(run, "2 damaged line(s), the first is line 2"));
  EXPECT_TRUE(complains(run, "ends in the middle of a line (line 5)"));
  EXPECT_TRUE(complains(run, "events.jsonl is missing"));
  EXPECT_TRUE(complains(run, "config.toml, line 2"));
  EXPECT_TRUE(complains(run, "step-00000002 has no manifest.json"));
  EXPECT_NE(run.config_text, "");
}

TEST(ReadRun, of_a_repeated_step_the_later_line_counts) {
  const SampleRun sample;
  sample.write("metrics.jsonl",
               "{\"step\":1,\"loss\":1}\n{\"step\":2,\"loss\":2}\n{\"step\":3,\"loss\":3}\n"
               "{\"step\":2,\"loss\":20}\n");
  const RunData run = read_run(sample.path());
  EXPECT_EQ(run.series("loss").steps, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(run.series("loss").values, (std::vector<double>{1, 20}));
  EXPECT_TRUE(complains(run, "repeats steps 1 time"));
}

TEST(ReadRun, no_folder_is_a_usage_error_and_a_foreign_one_a_run_folder_error) {
  const SampleRun sample;
  EXPECT_THROW(read_run(sample.path() / "nowhere"), ConfigError);
  sample.write("config.toml", "");
  EXPECT_THROW(read_run(sample.path()), CheckpointError);
  EXPECT_THROW(read_run(sample.path() / "config.toml"), ConfigError);
}

TEST(ReadRun, an_empty_run_is_a_run) {
  const SampleRun sample;
  sample.write("metrics.jsonl", "");
  EXPECT_TRUE(read_run(sample.path()).metrics.empty());
}

}  // namespace
}  // namespace trireme
