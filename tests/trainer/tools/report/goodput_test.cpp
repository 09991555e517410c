#include "trainer/tools/report/goodput.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/trainer/tools/report/sample_run.h"
#include "trainer/tools/report/event.h"
#include "trainer/tools/report/failures.h"

namespace trireme {
namespace {

// At second `at` of a minute, or after it.
std::string event(double at, const std::string& name, const std::string& details = "") {
  const auto minute = static_cast<int>(at / 60);
  return fmt::format("{{\"time\":\"2026-03-01T12:{:02}:{:06.3f}Z\",\"event\":\"{}\"{}}}\n", minute,
                     at - 60 * minute, name, details.empty() ? "" : "," + details);
}

std::string steps(int first, int last, double seconds) {
  std::string lines;
  for (int step = first; step <= last; ++step) {
    lines += fmt::format("{{\"step\":{},\"loss\":1,\"step_seconds\":{}}}\n", step, seconds);
  }
  return lines;
}

std::map<std::string, double> lost(const Goodput& found) {
  std::map<std::string, double> by_name;
  for (const Goodput::Share& share : found.lost) by_name[share.name] = share.seconds;
  return by_name;
}

TEST(Event, times_are_seconds_and_nonsense_is_none) {
  const auto time = [](const char* text) { return time_of(RunEvent{{"time", text}}); };
  EXPECT_EQ(time("1970-01-02T00:00:01.250Z"), 86401.25);
  for (const char* text :
       {"", "<i>", "2026-03-01", "2026-03-01T12:00:nanZ", "2026-03-01T12:00:99Z"}) {
    EXPECT_FALSE(time(text)) << text;
  }
  EXPECT_FALSE(time_of(RunEvent{{"time", 5}}));
}

TEST(Goodput, a_supervised_run_tells_where_the_time_went) {
  const SampleRun sample;
  sample.write("metrics.jsonl", steps(1, 30, 1));
  sample.write(
      "events.jsonl",
      event(0, "launch", "\"ranks\":4,\"attempt\":1,\"why\":\"start\"") +
          event(2, "start", "\"step\":0") +
          event(12, "checkpoint", "\"step\":10,\"stopped_seconds\":0.5") +
          event(20, "failure",
                "\"step\":18,\"text\":\"rank 2 on <b> died\",\"health\":\"lost\","
                "\"ranks\":[2],\"hosts\":[\"<b>\"]") +
          event(20.5, "ended", "\"exit_code\":7,\"seconds\":20") +
          event(21, "launch", "\"ranks\":4,\"attempt\":2,\"why\":\"restart\"") +
          event(22, "resume", "\"step\":16") +
          event(24, "recovered",
                "\"detect_seconds\":0.5,\"end_seconds\":0.25,\"relaunch_seconds\":1,\"load_"
                "seconds\":0.25,"
                "\"lost_seconds\":2.5,\"recomputed_steps\":2,\"resumed_from\":\"memory\"") +
          event(40, "stop", "\"step\":30,\"reason\":\"done\",\"exit_code\":0"));
  const RunData run = read_run(sample.path());
  const auto found = goodput(run);
  ASSERT_TRUE(found);
  EXPECT_DOUBLE_EQ(found->wall, 40);
  EXPECT_DOUBLE_EQ(found->useful, 30);
  EXPECT_DOUBLE_EQ(found->fraction(), 0.75);
  EXPECT_EQ(found->failures, 1);
  EXPECT_EQ(found->restarts, 1);
  EXPECT_EQ(found->recomputed_steps, 2);
  const auto by_name = lost(*found);
  EXPECT_EQ(by_name.at("failure detection"), 0.5);
  EXPECT_EQ(by_name.at("shutdown after failures"), 0.25);
  EXPECT_EQ(by_name.at("relaunch"), 0.75);
  EXPECT_EQ(by_name.at("checkpoint loading"), 0.25);
  EXPECT_EQ(by_name.at("recomputed steps"), 2);
  EXPECT_EQ(by_name.at("blocked by checkpoints"), 0.5);
  EXPECT_NEAR(by_name.at("startup and unattributed"), 5.75, 1e-9);
  EXPECT_FALSE(by_name.contains("downtime after failures"));
  const std::string page = failures_html(run);
  for (const char* words : {"75.00 %", "rank 2 on &lt;b&gt; died; health: lost; on &lt;b&gt;",
                            "exit code 7; after 20.0 s", "restart; 4 ranks; attempt 2",
                            "recomputed steps: 2; state loaded from memory"}) {
    EXPECT_NE(page.find(words), std::string::npos) << words << "\n" << page;
  }
}

TEST(Goodput, an_unsupervised_run_loses_what_lies_between_its_starts) {
  const SampleRun sample;
  sample.write("metrics.jsonl", steps(1, 20, 2));
  sample.write("events.jsonl", event(0, "start", "\"step\":0") +
                                   event(10, "failure", "\"step\":6") +
                                   event(100, "resume", "\"step\":4") +
                                   event(120, "stop", "\"step\":12,\"exit_code\":75") +
                                   event(180, "resume", "\"step\":12"));
  const auto found = goodput(read_run(sample.path()));
  ASSERT_TRUE(found);
  // The eight steps since the newest start are later than the newest event.
  EXPECT_DOUBLE_EQ(found->wall, 196);
  EXPECT_DOUBLE_EQ(found->useful, 40);
  EXPECT_EQ(found->restarts, 2);
  const auto by_name = lost(*found);
  EXPECT_EQ(by_name.at("downtime after failures"), 90);
  EXPECT_EQ(found->recomputed_steps, 2);
  EXPECT_EQ(by_name.at("recomputed steps"), 4);
  EXPECT_EQ(by_name.at("downtime after stops"), 60);
}

TEST(Goodput, is_not_told_without_a_start_a_step_or_a_sound_clock) {
  const auto of = [](const std::string& events, const std::string& metrics) {
    const SampleRun sample;
    sample.write("events.jsonl", events);
    sample.write("metrics.jsonl", metrics);
    return goodput(read_run(sample.path())).has_value();
  };
  const std::string start = event(0, "start", "\"step\":0"), stop = event(9, "stop");
  EXPECT_TRUE(of(start + stop, steps(1, 3, 1)));
  EXPECT_FALSE(of(stop, steps(1, 3, 1)));
  EXPECT_FALSE(of(start + stop, ""));
  EXPECT_FALSE(of("{\"time\":\"<i>\",\"event\":\"start\",\"step\":0}\n", steps(1, 3, 1)));
  // The clock went back: more time in steps than has passed.
  EXPECT_FALSE(
      of(event(100, "start", "\"step\":0") + event(101, "resume", "\"step\":50"), steps(1, 50, 1)));
}

TEST(Failures, a_run_without_any_has_its_times_alone) {
  const SampleRun sample;
  sample.write("metrics.jsonl", steps(1, 3, 1));
  sample.write("events.jsonl", event(0, "start", "\"step\":0") + event(4, "stop"));
  const std::string page = failures_html(read_run(sample.path()));
  EXPECT_NE(page.find("goodput"), std::string::npos);
  EXPECT_EQ(page.find("class=\"events\""), std::string::npos);
  const SampleRun nothing;
  nothing.write("metrics.jsonl", "");
  EXPECT_EQ(failures_html(read_run(nothing.path())), "");
}

TEST(Failures, the_self_check_and_what_launch_decides_are_told) {
  const SampleRun sample;
  sample.write("metrics.jsonl", "");
  sample.write("events.jsonl",
               event(1, "self_check", "\"step\":7,\"verdict\":\"bit-identical\",\"why\":\"\"") +
                   event(2, "excluded", "\"host\":\"n3\",\"why\":\"two failures\"") +
                   event(3, "returned", "\"host\":\"n3\"") +
                   event(4, "replicas_differ", "\"ranks\":[2],\"tensors\":[\"w (masters)\"]") +
                   event(5, "give_up", "\"exit_code\":93,\"why\":\"no new step\""));
  const std::string page = failures_html(read_run(sample.path()));
  for (const char* words : {"bit-identical", "n3; two failures", "host returned",
                            "ranks 2; tensors w", "no new step; exit code 93"}) {
    EXPECT_NE(page.find(words), std::string::npos) << words;
  }
}

}  // namespace
}  // namespace trireme
