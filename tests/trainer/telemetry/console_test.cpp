#include "trainer/telemetry/console.h"

#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "trainer/telemetry/progress_line.h"

namespace trireme {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

// A console that writes to a file, and a clock that goes one second per look.
class ConsoleTest : public testing::Test {
 protected:
  Console::Options options(bool terminal, std::int64_t total) {
    return {.total_steps = total,
            .interval = 10,
            .out = file_.get(),
            .terminal = terminal,
            .seconds = [this] { return now_ += 1; }};
  }
  std::string text() {
    std::fflush(file_.get());
    std::string out(static_cast<std::size_t>(std::ftell(file_.get())), '\0');
    std::rewind(file_.get());
    EXPECT_EQ(std::fread(out.data(), 1, out.size(), file_.get()), out.size());
    return out;
  }
  std::vector<std::string> lines() {
    std::vector<std::string> out;
    std::istringstream all(text());
    for (std::string line; std::getline(all, line);) out.push_back(line);
    return out;
  }
  static StepMetrics of_step(std::int64_t step) {
    StepMetrics metrics;
    metrics.step = step;
    metrics.loss = 3.25;
    metrics.grad_norm = 0.5;
    metrics.lr = 6e-4;
    metrics.step_seconds = 1;
    metrics.tokens_per_second = 1000;
    metrics.mfu = 0.4;
    metrics.memory_peak_bytes = 1u << 30;
    return metrics;
  }

  std::unique_ptr<std::FILE, CloseFile> file_{std::tmpfile()};
  double now_ = 0;
};

TEST_F(ConsoleTest, the_first_step_every_tenth_and_the_last_have_a_line) {
  Console console(options(false, 25));
  for (std::int64_t step = 4; step <= 25; ++step) console.step(of_step(step));
  const auto out = lines();
  ASSERT_EQ(out.size(), 4u);
  EXPECT_EQ(out[0], "step  4 loss 3.2500 norm 0.500 lr 6.0e-4 1.00k tok/s MFU 40% 1.00 GiB");
  EXPECT_EQ(out[1].substr(0, 8), "step 10 ");
  EXPECT_EQ(out[2].substr(0, 8), "step 20 ");
  EXPECT_EQ(out[3].substr(0, 8), "step 25 ");
  EXPECT_NE(out[2].find(" ETA 5.0 s"), std::string::npos) << out[2];
  EXPECT_EQ(out[3].find("ETA"), std::string::npos) << "at its end: " << out[3];
}

TEST_F(ConsoleTest, throughput_is_the_mean_over_the_time_since_the_line_before) {
  Console console(options(false, 10));
  console.step(of_step(1));
  for (std::int64_t step = 2; step <= 10; ++step) {
    StepMetrics metrics = of_step(step);
    if (step == 5) {  // one step of nine takes nine seconds for the same tokens
      metrics.step_seconds = 9;
      metrics.tokens_per_second = 1000.0 / 9;
    }
    console.step(metrics);
  }
  const auto out = lines();
  ASSERT_EQ(out.size(), 2u);
  EXPECT_NE(out[1].find(" 529 tok/s "), std::string::npos) << out[1];  // 9000 / 17
}

TEST_F(ConsoleTest, an_unknown_peak_and_an_unknown_end_are_left_out) {
  Console console(options(true, 0));
  StepMetrics metrics = of_step(1);
  metrics.mfu = 0;
  console.step(metrics);
  EXPECT_EQ(text(), "step 1 | loss 3.2500 | norm 0.5000 | lr 6.00e-04 | 1.00k tok/s | 1.00 GiB\n");
}

TEST_F(ConsoleTest, without_a_terminal_there_are_no_control_characters) {
  {
    Console console(options(false, 100));
    console.banner("trireme", {{"model", "gpt2"}, {"parameters", "124,439,808"}});
    for (std::int64_t step = 1; step <= 30; ++step) console.step(of_step(step));
    StepMetrics validated = of_step(30);
    validated.validation_loss = 3.5;
    validated.validation_bits_per_byte = 1.25;
    validated.validation_sets = {{"web", 3.25, std::nullopt, 640}, {"code", 3.75, 1.5, 640}};
    console.validation(validated, 2);
    console.note("checkpoint");
  }
  const std::string out = text();
  EXPECT_EQ(out.find_first_of("\r\x1b"), std::string::npos);
  EXPECT_EQ(out.substr(0, out.find("step")),
            "trireme\n  model       gpt2\n  parameters  124,439,808\n");
  EXPECT_NE(out.find("step  30/100 | validation loss 3.5000 | web 3.2500 | code 3.7500 | 1.2500 "
                     "bits/byte | took 2.0 s\n"),
            std::string::npos)
      << out;
}

// What a terminal shows at the end: the lines above the one that is written again, and that one.
std::vector<std::string> shown(const std::string& written) {
  std::vector<std::string> lines{""};
  std::size_t column = 0;
  for (std::size_t at = 0; at < written.size(); ++at) {
    std::string& line = lines.back();
    if (written[at] == '\n') {
      lines.emplace_back();
      column = 0;
    } else if (written[at] == '\r') {
      column = 0;
    } else if (written.compare(at, 3, "\x1b[K") == 0) {
      line.resize(std::min(line.size(), column));
      at += 2;
    } else {
      if (line.size() <= column) line.resize(column + 1, ' ');
      line[column++] = written[at];
    }
  }
  return lines;
}

TEST_F(ConsoleTest, on_a_terminal_a_line_below_the_log_lives_until_the_end) {
  Console console(options(true, 30));
  for (std::int64_t step = 1; step <= 11; ++step) console.step(of_step(step));
  console.note("checkpoint of step 10");
  const auto during = shown(text());
  ASSERT_EQ(during.size(), 4u) << text();
  EXPECT_EQ(during[0].substr(0, 8), "step  1 ");
  EXPECT_EQ(during[1].substr(0, 8), "step 10 ");
  EXPECT_EQ(during[2], "checkpoint of step 10");
  EXPECT_NE(during[3].find(" 36% 11/30  loss 3.2500  ETA 19.0 s  1.00k tok/s"), std::string::npos)
      << during[3];
  std::fseek(file_.get(), 0, SEEK_END);
  for (std::int64_t step = 12; step <= 30; ++step) console.step(of_step(step));
  console.note("done");
  const auto after = shown(text());
  ASSERT_EQ(after.size(), 7u) << text();
  EXPECT_EQ(after[4].substr(0, 8), "step 30 ");
  EXPECT_EQ(after[5], "done");
  EXPECT_EQ(after[6], "");
}

TEST_F(ConsoleTest, the_live_loss_is_a_mean_over_recent_steps) {
  Console console(options(true, 100));
  for (std::int64_t step = 1; step <= 40; ++step) {
    StepMetrics metrics = of_step(step);
    metrics.loss = step % 2 == 0 ? 2 : 4;
    console.step(metrics);
  }
  const std::string live = shown(text()).back();
  EXPECT_NE(live.find("loss 3.0000"), std::string::npos) << live;
}

TEST_F(ConsoleTest, lines_fit_eighty_columns) {
  Console console(options(false, 500000));
  console.banner("trireme", {{"memory", std::string(60, 'x') + " " + std::string(60, 'y')},
                             {"run folder", "/a/" + std::string(90, 'b') + " c"}});
  for (std::int64_t step = 499900; step < 500000; ++step) {
    StepMetrics metrics = of_step(step);
    metrics.loss = 11.25;
    metrics.grad_norm = 123.456;
    metrics.step_seconds = 3;
    console.step(metrics);
  }
  const auto out = lines();
  EXPECT_EQ(out[1], "  memory      " + std::string(60, 'x'));
  EXPECT_EQ(out[2], std::string(14, ' ') + std::string(60, 'y'));
  EXPECT_EQ(out[3], "  run folder  /a/" + std::string(90, 'b') + " c");
  ASSERT_GT(out.size(), 10u);
  for (std::size_t at = 4; at < out.size(); ++at) EXPECT_LE(out[at].size(), 80u) << out[at];
  EXPECT_NE(out.back().find("MFU 40%"), std::string::npos) << out.back();
  EXPECT_NE(out.back().find("ETA"), std::string::npos) << out.back();
}

TEST(ProgressLine, fits_every_width) {
  const Progress progress{450, 1000, {"loss 4.5612", "ETA 3m12s", "42.1k tok/s"}};
  for (int width = 0; width <= 120; ++width) {
    EXPECT_LE(progress_line(progress, width).size(), static_cast<std::size_t>(width));
  }
  EXPECT_EQ(progress_line(progress, 44), " 45% 450/1000  loss 4.5612  ETA 3m12s");
  const std::string wide = progress_line(progress, 120);
  EXPECT_EQ(
      wide,
      "[==============>                 ]  45% 450/1000  loss 4.5612  ETA 3m12s  42.1k tok/s");
}

TEST(ProgressLine, is_full_only_at_the_end) {
  EXPECT_EQ(progress_line({999, 1000, {}}, 80).find("100%"), std::string::npos);
  EXPECT_EQ(progress_line({1000, 1000, {}}, 25), "[========] 100% 1000/1000");
}

TEST(ProgressLine, the_width_is_the_terminals) {
  int master = -1;
  int terminal = -1;
  struct winsize size {};
  size.ws_row = 24;
  size.ws_col = 43;
  if (::openpty(&master, &terminal, nullptr, nullptr, &size) != 0) GTEST_SKIP() << "no pty here";
  EXPECT_EQ(terminal_width(terminal), 43);
  ::close(terminal);
  ::close(master);
  const std::unique_ptr<std::FILE, CloseFile> file(std::tmpfile());
  EXPECT_EQ(terminal_width(::fileno(file.get())), 80);
}

}  // namespace
}  // namespace trireme
