#include "trainer/telemetry/metrics_log.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/base/file.h"
#include "tests/trainer/telemetry/scratch_folder.h"

namespace trireme {
namespace {

using nlohmann::json;

StepMetrics of_step(std::int64_t step) {
  StepMetrics metrics;
  metrics.step = step;
  metrics.tokens = step * 1000;
  metrics.loss = 1.0 / static_cast<double>(step);
  metrics.memory_peak_bytes = std::numeric_limits<std::uint64_t>::max();
  return metrics;
}

std::vector<std::int64_t> steps_in(const std::filesystem::path& path) {
  std::vector<std::int64_t> steps;
  std::istringstream lines(read_text(path));
  for (std::string line; std::getline(lines, line);) {
    steps.push_back(json::parse(line).at("step").get<std::int64_t>());
  }
  return steps;
}

std::vector<std::int64_t> up_to(std::int64_t last) {
  std::vector<std::int64_t> steps;
  for (std::int64_t step = 1; step <= last; ++step) steps.push_back(step);
  return steps;
}

TEST(MetricsLog, every_float64_and_float32_reads_back_to_the_same_bits) {
  std::mt19937_64 random(7);
  StepMetrics metrics = of_step(1);
  for (int i = 0; i < 50000; ++i) {
    const auto wide = std::bit_cast<double>(random());
    const auto narrow = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (!std::isfinite(wide) || !std::isfinite(narrow)) continue;
    metrics.loss = wide;
    metrics.lr = narrow;
    const json line = json::parse(metrics_line(metrics));
    ASSERT_EQ(std::bit_cast<std::uint64_t>(line.at("loss").get<double>()),
              std::bit_cast<std::uint64_t>(wide));
    ASSERT_EQ(std::bit_cast<std::uint32_t>(static_cast<float>(line.at("lr").get<double>())),
              std::bit_cast<std::uint32_t>(narrow));
  }
}

TEST(MetricsLog, corner_numbers_read_back_to_the_same_bits) {
  using Limits = std::numeric_limits<double>;
  for (const double value : {0.0, -0.0, 1.0, 0.1, 1e22, Limits::min(), Limits::denorm_min(),
                             Limits::max(), -Limits::max(), 9007199254740993.0}) {
    StepMetrics metrics = of_step(1);
    metrics.loss = value;
    const json line = json::parse(metrics_line(metrics));
    EXPECT_EQ(std::bit_cast<std::uint64_t>(line.at("loss").get<double>()),
              std::bit_cast<std::uint64_t>(value))
        << metrics_line(metrics);
    EXPECT_EQ(line.at("memory_peak_bytes").get<std::uint64_t>(),
              std::numeric_limits<std::uint64_t>::max());
  }
}

TEST(MetricsLog, what_is_not_finite_is_null_and_named) {
  StepMetrics metrics = of_step(3);
  metrics.loss = std::nan("");
  metrics.grad_norm = std::numeric_limits<double>::infinity();
  metrics.validation_loss = -std::numeric_limits<double>::infinity();
  const json line = json::parse(metrics_line(metrics));
  EXPECT_TRUE(line.at("loss").is_null());
  EXPECT_TRUE(line.at("grad_norm").is_null());
  EXPECT_EQ(line.at("not_finite"),
            json({{"loss", "nan"}, {"grad_norm", "inf"}, {"validation_loss", "-inf"}}));
  EXPECT_FALSE(json::parse(metrics_line(of_step(3))).contains("not_finite"));
}

TEST(MetricsLog, optional_and_further_numbers_have_their_keys) {
  StepMetrics metrics = of_step(3);
  EXPECT_FALSE(json::parse(metrics_line(metrics)).contains("validation_loss"));
  metrics.validation_loss = 2.5;
  metrics.validation_bits_per_byte = 1.25;
  metrics.validation_sets = {{"web", 2.25, 1.5, 640}, {"code", 2.75, std::nullopt, 640}};
  metrics.more = {{"aux_loss", 0.01}};
  const json line = json::parse(metrics_line(metrics));
  EXPECT_EQ(line.at("validation_loss"), 2.5);
  EXPECT_EQ(line.at("validation_loss/web"), 2.25);
  EXPECT_EQ(line.at("validation_bits_per_byte/web"), 1.5);
  EXPECT_EQ(line.at("validation_loss/code"), 2.75);
  EXPECT_FALSE(line.contains("validation_bits_per_byte/code"));
  EXPECT_EQ(line.at("validation_bits_per_byte"), 1.25);
  EXPECT_EQ(line.at("aux_loss"), 0.01);
  metrics.more = {{"loss", 0.01}};
  EXPECT_THROW(metrics_line(metrics), Error);
}

TEST(MetricsLog, loads_of_experts_are_lists) {
  StepMetrics metrics = of_step(3);
  EXPECT_FALSE(json::parse(metrics_line(metrics)).contains("expert_load_max_over_mean_by_layer"));
  metrics.expert_load = {.layers = {1, 3}, .max_over_mean = {1.5, 1.25}};
  json line = json::parse(metrics_line(metrics));
  EXPECT_EQ(line.at("expert_load_max_over_mean_by_layer"), json({1.5, 1.25}));
  EXPECT_FALSE(line.contains("expert_load"));
  metrics.expert_load->counts = {{3, 1}, {5, 3}};
  line = json::parse(metrics_line(metrics));
  EXPECT_EQ(line.at("expert_load"), json::parse(R"({"layers":[1,3],"counts":[[3,1],[5,3]]})"));
}

// Frozen where it was about to write, and awake when another run has gone on.
TEST(MetricsLog, a_writer_that_comes_late_adds_nothing_to_the_file_of_the_next) {
  const ScratchFolder scratch;
  const std::filesystem::path path = scratch.path() / "metrics.jsonl";
  MetricsLog late(path, 0);
  for (const std::int64_t step : up_to(3)) late.append(of_step(step));
  MetricsLog next(path, 3);
  late.append(of_step(4));
  EXPECT_EQ(steps_in(path), up_to(3));
  next.append(of_step(4));
  EXPECT_EQ(steps_in(path), up_to(4));
}

TEST(MetricsLog, a_resume_cuts_off_the_later_steps) {
  const ScratchFolder folder;
  const auto path = folder / "metrics.jsonl";
  {
    MetricsLog log(path, 0);
    for (const std::int64_t step : up_to(10)) log.append(of_step(step));
  }
  {
    MetricsLog log(path, 6);
    EXPECT_EQ(log.cut().refused, 4u);
    EXPECT_EQ(steps_in(path), up_to(6));
    for (std::int64_t step = 7; step <= 9; ++step) log.append(of_step(step));
  }
  EXPECT_EQ(steps_in(path), up_to(9));
  const MetricsLog from_the_start(path, 0);
  EXPECT_EQ(read_text(path), "");
}

TEST(MetricsLog, torn_foreign_and_repeated_lines_are_cut_off) {
  const ScratchFolder folder;
  const auto path = folder / "metrics.jsonl";
  replace_text(path,
               "{\"step\":1}\nnot json\n{\"step\":2}\n{\"step\":2}\n{\"step\":\"3\"}\n[3]\n\n"
               "{\"step\":3}\n{\"step\":4,\"lo");
  MetricsLog log(path, 4);
  EXPECT_TRUE(log.cut().torn);
  EXPECT_EQ(log.cut().kept, 3u);
  EXPECT_EQ(steps_in(path), up_to(3));
  log.append(of_step(5));
  EXPECT_EQ(read_text(path).substr(0, 33), "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n");
}

TEST(MetricsLog, a_file_of_one_torn_line_becomes_empty) {
  const ScratchFolder folder;
  const auto path = folder / "metrics.jsonl";
  replace_text(path, "{\"step\":1");
  const MetricsLog log(path, 0);
  EXPECT_EQ(read_text(path), "");
}

TEST(MetricsLog, a_step_cannot_come_twice) {
  const ScratchFolder folder;
  MetricsLog log(folder / "metrics.jsonl", 0);
  log.append(of_step(1));
  EXPECT_THROW(log.append(of_step(1)), Error);
}

TEST(MetricsLog, an_unwritable_place_is_an_environment_error) {
  EXPECT_THROW(MetricsLog("/proc/metrics.jsonl", 0), EnvironmentError);
  const ScratchFolder folder;
  std::filesystem::create_directory(folder / "metrics.jsonl");
  EXPECT_THROW(MetricsLog(folder / "metrics.jsonl", 0), EnvironmentError);
}

TEST(MetricsLog, after_a_kill_at_any_moment_each_step_is_there_once) {
  const ScratchFolder folder;
  const auto path = folder / "metrics.jsonl";
  std::mt19937 random(11);
  std::int64_t resumed_at = 0;
  for (int round = 0; round < 10; ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      MetricsLog log(path, resumed_at);
      for (std::int64_t step = resumed_at + 1;; ++step) log.append(of_step(step));
    }
    ::usleep(2000 + static_cast<useconds_t>(random() % 20000));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    // The newest whole line stands for the newest checkpoint.
    const std::string text = read_text(path);
    const std::size_t end = text.rfind('\n');
    if (end == std::string::npos) continue;
    const std::size_t begin = end == 0 ? 0 : text.rfind('\n', end - 1) + 1;
    const auto newest = json::parse(text.substr(begin, end - begin)).at("step").get<int>();
    resumed_at = newest - newest / 4;
    const MetricsLog log(path, resumed_at);
    ASSERT_EQ(steps_in(path), up_to(resumed_at)) << "round " << round;
  }
  EXPECT_GT(resumed_at, 0);
}

}  // namespace
}  // namespace trireme
