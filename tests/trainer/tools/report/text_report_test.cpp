#include "trainer/tools/report/report.h"

#include <gtest/gtest.h>

#include <limits>

#include "trainer/tools/report/config_values.h"
#include "trainer/tools/report/event.h"
#include "trainer/tools/report/sparkline.h"

namespace trireme {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Sparkline, goes_from_the_least_block_to_the_greatest) {
  EXPECT_EQ(sparkline({.steps = {1, 2, 3, 4}, .values = {0, 1, 2, 7}}, 1, 4, 60), "▁▂▃█");
  EXPECT_EQ(sparkline({.steps = {1, 2}, .values = {5, 5}}, 1, 2, 2), "▁▁");
  // Two steps a column; the third column has no step, the last only what is not finite.
  EXPECT_EQ(sparkline({.steps = {1, 2, 3, 4, 7, 8}, .values = {0, 0, 3, 11, kNan, kNan}}, 1, 8, 4),
            "▁█ x");
  EXPECT_EQ(sparkline({.steps = {2}, .values = {1}}, 1, 3, 9), " ▁ ");
  EXPECT_EQ(sparkline({}, 0, -1, 4), "");
}

TEST(ConfigValues, are_told_with_their_origin_and_what_differs_is_found) {
  const std::string_view one =
      "[job]\ndump_folder = \"/a\"  # run.toml:1\nseed = 3   # command line\n"
      "[data]\ntokenizer = \"a # b\" # default\n[training]\nglobal_batch_size = 4 # derived\n";
  const auto values = config_values(one);
  ASSERT_EQ(values.size(), 4U);
  EXPECT_EQ(values[2].key, "data.tokenizer");
  EXPECT_EQ(values[2].value, "\"a # b\"");
  EXPECT_EQ(values[2].origin, "default");
  EXPECT_TRUE(values[1].is_chosen());
  EXPECT_FALSE(values[2].is_chosen());
  EXPECT_FALSE(values[3].is_chosen());
  const auto differences =
      config_differences({one, "[job]\ndump_folder = \"/b\"\nseed = 4\n[x]\ny = 1\n"});
  ASSERT_EQ(differences.size(), 4U);
  EXPECT_EQ(differences[0].key, "job.seed");
  EXPECT_EQ(differences[0].values, (std::vector<std::string>{"3", "4"}));
  EXPECT_EQ(differences[1].values, (std::vector<std::string>{"\"a # b\"", ""}));
  EXPECT_EQ(differences[3].key, "x.y");
}

RunData sample(const std::string& folder, const std::string& seed) {
  RunData run;
  run.folder = folder;
  run.metrics["loss"] = {.steps = {1, 2, 3}, .values = {4, 3, 2}};
  run.config_text = "[job]\nseed = " + seed + " # command line\nthreads = 0 # default\n";
  run.events = {RunEvent::parse(R"({"time":"2026-03-01T12:00:00.1Z","event":"start","step":0})"),
                RunEvent::parse("{\"time\":\"2026-03-01T12:00:09.1Z\",\"event\":\"failure\","
                                "\"step\":2,\"text\":\"rank 3 \\u001b[2Jis gone\"}")};
  return run;
}

TEST(TextReport, tells_the_run_and_gives_the_terminal_no_orders) {
  RunData run = sample("/runs/first", "3");
  run.metrics["accuracy/quiz"] = {.steps = {2, 3}, .values = {0.25, 0.5}};
  run.metrics["\x1b/x"] = run.metrics["loss"];
  run.audit = AuditResult{.is_clean = true, .text = "3 steps\nclean\n"};
  const std::string text = report_text({run});
  for (const char* part :
       {"=== first\n", "failed  state", "loss ", "█", "4 -> 2", "0.25 -> 0.5", "rank 3  [2Jis gone",
        "2026-03-01 12:00:09", "3 steps\nclean", "job.seed = 3  (command line)"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
  }
  EXPECT_EQ(text.find("job.threads"), std::string::npos);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST(TextReport, runs_of_one_name_are_told_apart_and_compared) {
  const std::string text = report_text({sample("/a/run", "3"), sample("/b/run", "4")});
  EXPECT_NE(text.find("=== a/run"), std::string::npos) << text;
  EXPECT_NE(text.find("job.seed\n    a/run                3\n    b/run                4\n"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace trireme
