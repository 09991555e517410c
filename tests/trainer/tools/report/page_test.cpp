#include "trainer/tools/report/report.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/trainer/tools/report/sample_run.h"
#include "trainer/tools/report/chart_data.h"

namespace trireme {
namespace {

// check_page.py reads the page with Python's own HTML parser.
int check(const SampleRun& sample, const std::vector<RunData>& runs,
          const std::string& expectation) {
  const auto page = sample.path() / "page.html";
  std::ofstream(page, std::ios::binary) << report_page(runs);
  const std::string command =
      std::string(PYTHON " -B " HERE "/check_page.py '") + page.string() + "' " + expectation;
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Page, a_run_full_of_traps_is_a_valid_page_that_needs_nothing_else) {
  const SampleRun sample;
  std::string metrics;
  for (int step = 1; step <= 5000; ++step) {
    const std::string number = std::to_string(step);
    metrics += "{\"step\":" + number + ",\"tokens\":" + number +
               ",\"loss\":" + (step == 7 ? "null" : std::to_string(9.0 / step)) +
               ",\"lr\":0.001,\"grad_norm\":1e300,\"tokens_per_second\":100,\"step_seconds\":1,"
               "\"</script><b>\":1,\"memory_peak_bytes\":18446744073709551615}\n";
  }
  sample.write("metrics.jsonl", metrics + "{\"step\":50");
  sample.write(
      "events.jsonl",
      "{\"time\":\"<i>\",\"event\":\"start\",\"step\":0,\"model\":\"</title><script>evil()"
      "</script>\",\"parameters\":12,\"{{data}}\":\"{{script}}\"}\n"
      "{\"event\":\"sample\",\"step\":5,\"prompt\":\"<img src=x onerror=evil()>\","
      "\"text\":\"</pre>]]> \\u2028 \\u0000 \\\"'&amp; http:\"}\n"
      "{\"event\":\"validation\",\"step\":-5,\"loss\":1e400}\n"
      "{\"event\":\"resume\",\"step\":9223372036854775807}\n"
      "{\"event\":\"resume\",\"step\":18446744073709551615}\n"
      "{\"event\":\"x\",\"step\":{},\"bytes\":-1,\"seconds\":\"s\",\"deep\":{\"a\":[1]}}\n");
  sample.write("config.toml",
               "[job]\ndescription = \"</p><script>evil()</script> # no comment\" # default\n"
               "seed = 1 # <b>\n# \xff\xfe\n");
  const RunData run = read_run(sample.path());
  EXPECT_EQ(check(sample, {run}, "curves"), 0);
  EXPECT_EQ(check(sample, {run, run, run}, "several"), 0);
}

TEST(Page, metrics_of_one_group_share_a_chart) {
  RunData run;
  for (const char* key : {"loss", "accuracy/quiz", "accuracy/other", "aux_loss"}) {
    run.metrics[key] = {.steps = {5, 10}, .values = {0.25, 0.5}};
  }
  std::map<std::string, std::vector<std::string>> lines;
  const auto data = chart_data({run});
  for (const auto& curve : data.at("curves")) {
    for (const auto& one : curve.at("series")) {
      lines[curve.at("title").get<std::string>()].push_back(one.at("name").get<std::string>());
    }
  }
  EXPECT_EQ(lines.at("accuracy"), (std::vector<std::string>{"other", "quiz"}));
  EXPECT_EQ(lines.at("aux_loss").size(), 1U);
  EXPECT_EQ(lines.size(), 3U);
}

TEST(Page, loads_of_experts_are_a_heat_map_if_they_are_what_a_run_writes) {
  const auto page_of = [](const std::string& load) {
    const SampleRun sample;
    sample.write("metrics.jsonl", "{\"step\":5,\"loss\":1,\"expert_load\":" + load + "}\n");
    return report_page({read_run(sample.path())});
  };
  const std::string page = page_of(R"({"layers":[1,7],"counts":[[3,0],[2,2]]})");
  for (const char* part :
       {"Load of the experts at step 5", "layer 1, expert 0: 2.00 times the mean",
        "layer 1, expert 1: 0.00 times the mean", "layer 7, expert 1: 1.00 times the mean"}) {
    EXPECT_NE(page.find(part), std::string::npos) << part;
  }
  for (const char* load :
       {"null", "[1]", "{}", R"({"layers":[],"counts":[]})", R"({"layers":[1],"counts":[[]]})",
        R"({"layers":[1],"counts":[3]})", R"({"layers":[1],"counts":[["<b>"]]})",
        R"({"layers":[1,2],"counts":[[1,2]]})", R"({"layers":[1,2],"counts":[[1,2],[1]]})",
        R"({"layers":[1],"counts":[[1,-2]]})"}) {
    EXPECT_EQ(page_of(load).find("Load of the experts"), std::string::npos) << load;
  }
}

TEST(Page, a_heat_map_of_many_experts_is_a_small_page) {
  RunData run;
  const std::vector<int> counts(512, 3);
  run.expert_load = {.step = 1, .load = {{"layers", nlohmann::ordered_json::array()}}};
  for (int layer = 0; layer < 60; ++layer) {
    run.expert_load->load["layers"].push_back(layer);
    run.expert_load->load["counts"].push_back(counts);
  }
  const std::string page = report_page({run});
  EXPECT_NE(page.find("Load of the experts"), std::string::npos);
  EXPECT_LT(page.size(), 1u << 20);
}

TEST(Page, an_empty_run_is_a_valid_page) {
  const SampleRun sample;
  sample.write("metrics.jsonl", "");
  EXPECT_EQ(check(sample, {read_run(sample.path())}, "empty"), 0);
}

TEST(Page, a_long_run_stays_a_small_page) {
  const SampleRun sample;
  std::string metrics;
  for (int step = 1; step <= 200'000; ++step) {
    const std::string number = std::to_string(step);
    metrics += "{\"step\":" + number + ",\"loss\":" + std::to_string(1.0 / step) +
               ",\"grad_norm\":0.1" + number + ",\"lr\":0.1" + number + "}\n";
  }
  sample.write("metrics.jsonl", metrics);
  std::string events;
  for (int i = 0; i < 20'000; ++i) {
    events += "{\"event\":\"checkpoint\",\"step\":" + std::to_string(i) + "}\n";
  }
  sample.write("events.jsonl", events);
  const std::string page = report_page({read_run(sample.path())});
  EXPECT_LT(page.size(), 1u << 20);
  EXPECT_NE(page.find("19,550 more events are in events.jsonl"), std::string::npos);
}

}  // namespace
}  // namespace trireme
