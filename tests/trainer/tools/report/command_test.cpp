#include "trainer/commands/command.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/base/file.h"
#include "tests/trainer/tools/report/sample_run.h"

namespace trireme {
namespace {

ExitCode run_command(std::vector<std::string> words) {
  CLI::App program("trireme");
  const Command command = make_report(program);
  words.insert(words.begin(), "report");
  program.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  EXPECT_TRUE(command.app->parsed());
  return command.run();
}

TEST(ReportCommand, writes_into_the_run_folder_or_where_told) {
  const SampleRun sample;
  sample.write("metrics.jsonl", "{\"step\":1,\"loss\":1}\n");
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_command({sample.path().string()}), ExitCode::kDone);
  const auto other = sample.path() / "other.html";
  EXPECT_EQ(run_command({sample.path().string(), "--output", other.string()}), ExitCode::kDone);
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            (sample.path() / "report.html").string() + "\n" + other.string() + "\n");
  EXPECT_NE(testing::internal::GetCapturedStderr().find("config.toml is missing"),
            std::string::npos);
  EXPECT_EQ(read_text(sample.path() / "report.html").substr(0, 15), "<!DOCTYPE html>");
  EXPECT_EQ(read_text(other).substr(0, 15), "<!DOCTYPE html>");
}

TEST(ReportCommand, text_goes_to_the_terminal_and_several_runs_into_one_page) {
  const SampleRun one;
  const SampleRun other;
  one.write("metrics.jsonl", "{\"step\":1,\"loss\":1}\n");
  other.write("metrics.jsonl", "{\"step\":1,\"loss\":2}\n");
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_command({one.path().string(), other.path().string(), "--text"}), ExitCode::kDone);
  const std::string text = testing::internal::GetCapturedStdout();
  EXPECT_NE(text.find("=== " + one.path().filename().string()), std::string::npos) << text;
  EXPECT_NE(text.find("=== " + other.path().filename().string()), std::string::npos) << text;
  EXPECT_FALSE(std::filesystem::exists(one.path() / "report.html"));
  testing::internal::CaptureStdout();
  EXPECT_EQ(run_command({one.path().string(), other.path().string()}), ExitCode::kDone);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), (one.path() / "report.html").string() + "\n");
  testing::internal::GetCapturedStderr();
  EXPECT_NE(read_text(one.path() / "report.html").find("Comparison of runs"), std::string::npos);
}

TEST(ReportCommand, a_place_that_cannot_be_written_leaves_nothing_behind) {
  const SampleRun sample;
  sample.write("metrics.jsonl", "");
  EXPECT_THROW(run_command({sample.path().string(), "-o", "/proc/page.html"}), EnvironmentError);
  EXPECT_THROW(run_command({sample.path().string(), "-o", sample.path().string()}), ConfigError);
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(sample.path())) {
    EXPECT_EQ(entry.path().filename(), "metrics.jsonl");
    ++files;
  }
  EXPECT_EQ(files, 1u);
}

TEST(ReportCommand, a_foreign_folder_is_refused) {
  const SampleRun sample;
  EXPECT_THROW(run_command({sample.path().string()}), CheckpointError);
  EXPECT_THROW(run_command({}), CLI::ParseError);
}

}  // namespace
}  // namespace trireme
