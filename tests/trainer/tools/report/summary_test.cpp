#include "trainer/tools/report/summary.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/trainer/tools/report/sample_run.h"

namespace trireme {
namespace {

std::string tile(const RunData& run, const std::string& label) {
  for (const Tile& one : summary_tiles(run)) {
    if (one.label.find(label) != std::string::npos) return one.value + " | " + one.label;
  }
  return "none";
}

TEST(Summary, names_the_best_and_the_means_over_time) {
  const SampleRun sample;
  sample.write("events.jsonl",
               "{\"event\":\"start\",\"step\":0,\"parameters\":124439808,\"total_steps\":4000}\n");
  sample.write("metrics.jsonl",
               "{\"step\":1,\"tokens\":300,\"loss\":9,\"validation_loss\":4,"
               "\"validation_bits_per_byte\":2,\"step_seconds\":1,\"tokens_per_second\":300}\n"
               "{\"step\":2,\"tokens\":600,\"loss\":8,\"validation_loss\":3,"
               "\"validation_bits_per_byte\":1.5,\"step_seconds\":3,\"tokens_per_second\":100}\n"
               "{\"step\":3,\"tokens\":900,\"loss\":7,\"validation_loss\":3.5,"
               "\"step_seconds\":1,\"tokens_per_second\":300}\n");
  const RunData run = read_run(sample.path());
  EXPECT_EQ(tile(run, "parameters"), "124M | parameters");
  EXPECT_EQ(tile(run, "steps of"), "3 | steps of 4,000");
  EXPECT_EQ(tile(run, "trained on"), "900 | tokens trained on");
  EXPECT_EQ(tile(run, "last training"), "7.0000 | last training loss");
  EXPECT_EQ(tile(run, "validation loss"), "3.0000 | best validation loss, step 2");
  EXPECT_EQ(tile(run, "bits per byte"), "1.5000 | best bits per byte, step 2");
  EXPECT_EQ(tile(run, "per second"), "180 | tokens per second, mean");  // 900 / 5
  EXPECT_EQ(tile(run, "MFU"), "none");
}

TEST(Summary, a_broken_last_loss_is_said) {
  const SampleRun sample;
  sample.write("metrics.jsonl", "{\"step\":1,\"loss\":9}\n{\"step\":2,\"loss\":null}\n");
  EXPECT_EQ(tile(read_run(sample.path()), "last training"), "not finite | last training loss");
}

TEST(Summary, validation_falls_back_to_the_events_and_takes_the_later_of_a_step) {
  const SampleRun sample;
  sample.write("events.jsonl",
               "{\"event\":\"validation\",\"step\":10,\"loss\":4}\n"
               "{\"event\":\"validation\",\"step\":20,\"loss\":3}\n"
               "{\"event\":\"validation\",\"step\":10,\"loss\":5}\n");
  const Series series = validation_curve(read_run(sample.path()), "validation_loss", "loss");
  EXPECT_EQ(series.steps, (std::vector<std::int64_t>{10, 20}));
  EXPECT_EQ(series.values, (std::vector<double>{5, 3}));
}

RunState state_after(const std::string& events) {
  const SampleRun sample;
  sample.write("events.jsonl", events);
  return run_state(read_run(sample.path()));
}

TEST(Summary, the_state_is_that_of_the_newest_start_or_stop) {
  const std::string start = "{\"event\":\"start\",\"step\":0}\n";
  const auto stop = [](const char* reason, int code) {
    return "{\"event\":\"stop\",\"step\":5,\"reason\":\"" + std::string(reason) +
           "\",\"exit_code\":" + std::to_string(code) + "}\n";
  };
  EXPECT_EQ(state_after("").text, "no end recorded");
  EXPECT_EQ(state_after(start).text, "no end recorded");
  EXPECT_EQ(state_after(start + stop("finished", 0)).kind, RunState::Kind::kGood);
  EXPECT_EQ(state_after(start + stop("finished", 0) + start).text, "no end recorded");
  EXPECT_EQ(state_after(start + stop("signal", 75)).text, "stopped: signal");
  EXPECT_EQ(state_after(start + stop("signal", 75)).kind, RunState::Kind::kOpen);
  EXPECT_EQ(state_after(start + stop("diverged", 6)).kind, RunState::Kind::kBad);
  EXPECT_EQ(state_after(start + "{\"event\":\"failure\",\"step\":5}\n").text, "failed");
}

}  // namespace
}  // namespace trireme
