#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <memory>
#include <string>

namespace trireme {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

struct Outcome {
  int code = -1;
  std::string text;  // stdout and stderr
};

Outcome run(const std::string& arguments) {
  Outcome outcome;
  const std::string command = std::string(TRIREME_PROGRAM) + " " + arguments + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return outcome;
  std::array<char, 4096> buffer{};
  while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
    outcome.text.append(buffer.data(), n);
  }
  outcome.code = WEXITSTATUS(pclose(pipe));
  return outcome;
}

void expect_usage_error(const std::string& arguments, const std::string& text) {
  const Outcome outcome = run(arguments);
  EXPECT_EQ(outcome.code, 2) << arguments;
  EXPECT_EQ(outcome.text, "trireme: error: " + text + "\n") << arguments;
}

TEST(command_line, version_names_libraries_and_devices) {
  const Outcome outcome = run("--version");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.text, ContainsRegex("^trireme [0-9]+\\.[0-9]+"));
  EXPECT_THAT(outcome.text, ContainsRegex("HDF5 [0-9]+\\.[0-9]+"));
  EXPECT_THAT(outcome.text, ContainsRegex("OpenBLAS [0-9]"));
  EXPECT_THAT(outcome.text, ContainsRegex("oneDNN [0-9]"));
  EXPECT_THAT(outcome.text, ContainsRegex("MPI v?[0-9]"));
  EXPECT_THAT(
      outcome.text,
      ContainsRegex("CUDA: (built without CUDA|CUDA [0-9.]+.*, cuBLASLt .*, cuDNN .*, NCCL )"));
  EXPECT_THAT(outcome.text, ContainsRegex("devices: cpu: .* cores usable"));
  EXPECT_THAT(outcome.text, ContainsRegex("\n +(no device: |cuda:0: )"));
}

TEST(command_line, help_documents_the_exit_codes_and_every_command) {
  const Outcome outcome = run("--help");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.text, HasSubstr("75  stopped by SIGTERM"));
  EXPECT_THAT(outcome.text, HasSubstr("config"));
  EXPECT_EQ(run("config --help").code, 0);
  EXPECT_THAT(run("config show --help").text, HasSubstr("CONFIG"));
}

TEST(command_line, a_slip_gets_one_line_and_the_word_that_was_meant) {
  expect_usage_error("", "no command given; see 'trireme --help'");
  expect_usage_error("confg", "'trireme' has no command 'confg'; did you mean config?");
  expect_usage_error("--verison", "'trireme' has no option --verison; did you mean --version?");
  expect_usage_error("config", "'trireme config' needs a command: show, keys, diff, from-hf");
  expect_usage_error("config kesy", "'trireme config' has no command 'kesy'; did you mean keys?");
  expect_usage_error("config keys --markdwon=1",
                     "'trireme config keys' has no option --markdwon; did you mean --markdown?");
  expect_usage_error("config show x.toml --max_steps=5",
                     "'trireme config show' has no option --max_steps; did you mean "
                     "--training.steps?");
  expect_usage_error("config show",
                     "'trireme config show': CONFIG is required; see 'trireme config show --help'");
  expect_usage_error("config keys --job.seed=1",
                     "'trireme config keys' reads no config, so it takes no --job.seed");
}

TEST(command_line, a_config_that_is_not_there_is_a_usage_error) {
  const Outcome outcome = run("config show /no/such/file.toml");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.text, HasSubstr("/no/such/file.toml"));
}

TEST(command_line, show_prints_the_config_with_its_overrides) {
  const std::string tiny = std::string(TRIREME_CONFIGS) + "/tiny.toml";
  const Outcome outcome = run("config show --training.steps 7 " + tiny + " --job.reproducible");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.text, ContainsRegex("\nsteps = 7 +# command line\n"));
  EXPECT_THAT(outcome.text, ContainsRegex("\nreproducible = true +# command line\n"));
  EXPECT_EQ(run("config show " + tiny + " --training.steps=-1").code, 2);
}

TEST(command_line, a_full_disk_is_not_success) {
  const std::string tiny = std::string(TRIREME_CONFIGS) + "/tiny.toml";
  EXPECT_EQ(run("config show " + tiny + " 2>/dev/null >/dev/full").code, 5);
}

}  // namespace
}  // namespace trireme
