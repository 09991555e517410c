#include "trainer/commands/command.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/checkpoint/state.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using checkpoint::Lease;
using checkpoint::Scratch;
using checkpoint::State;
using checkpoint::Store;

struct Outcome {
  ExitCode code;
  std::string output;  // or the error's message
};

Outcome run(std::vector<std::string> words) {
  CLI::App program;
  const Command command = make_checkpoint(program);
  std::reverse(words.begin(), words.end());
  words.emplace_back("checkpoint");
  testing::internal::CaptureStdout();
  try {
    program.parse(words);
    const ExitCode code = command.run();
    std::fflush(stdout);
    return {code, testing::internal::GetCapturedStdout()};
  } catch (const Error& error) {
    std::fflush(stdout);
    return {error.code(), testing::internal::GetCapturedStdout() + error.what()};
  } catch (const CLI::ParseError& error) {
    testing::internal::GetCapturedStdout();
    return {ExitCode::kUsage, error.what()};
  }
}

class CheckpointCommand : public testing::Test {
 protected:
  CheckpointCommand() {
    const Lease lease(scratch_.path());
    Store store(scratch_.path(), lease);
    for (const int step : {10, 20, 30, 40}) {
      commit(store, State(step < 30 ? 1 : unsigned(step)), step);
    }
  }
  std::string run_dir() const { return scratch_.path(); }
  std::string step(const std::string& name) const {
    return scratch_.path() / "checkpoints" / ("step-000000" + name);
  }
  Scratch scratch_;
};

TEST_F(CheckpointCommand, list_shows_one_line_each_newest_first) {
  fs::remove(step("20") + "/shard-00000-of-00001.h5");
  std::ofstream(step("10") + "/manifest.json") << "x";
  const auto [code, output] = run({"list", run_dir()});
  EXPECT_EQ(code, ExitCode::kDone);
  EXPECT_LT(output.find("\n        40  20"), output.find("\n        30  20"));
  EXPECT_NE(output.find("3.14159  complete"), std::string::npos) << output;
  EXPECT_NE(output.find("3.14159  damaged: cannot open"), std::string::npos) << output;
  EXPECT_NE(output.find("        10  -"), std::string::npos) << output;
  EXPECT_EQ(run({"list", run_dir() + "/nowhere"}).code, ExitCode::kCheckpoint);
}

TEST_F(CheckpointCommand, show_describes_the_newest_and_a_tensors_statistics) {
  const auto [code, output] = run({"show", run_dir()});
  EXPECT_EQ(code, ExitCode::kDone);
  EXPECT_NE(output.find("step       40\n"), std::string::npos) << output;
  EXPECT_NE(output.find("parent     30\n"), std::string::npos) << output;
  EXPECT_NE(output.find("bfloat16  [3, 8, 24] "), std::string::npos) << output;

  Scratch other;
  State ramp;
  auto* values = reinterpret_cast<float*>(ramp.pieces()[1].data);
  for (int i = 0; i < 24; ++i) values[i] = float(i) - 4;
  values[23] = std::numeric_limits<float>::infinity();
  {
    const Lease lease(other.path());
    Store store(other.path(), lease);
    commit(store, ramp, 1);
  }
  const auto shown = run({"show", other.path(), "--tensor", "model/layers.0.norm.weight"});
  EXPECT_EQ(shown.output,
            "model/layers.0.norm.weight\n  elements    24\n  zeros       1\n  not finite  1\n"
            "  least       -4\n  most        18\n  mean        7\n  deviation   6.63324958\n");
  const auto unknown = run({"show", other.path(), "--tensor", "no"});
  EXPECT_EQ(unknown.code, ExitCode::kCheckpoint);
  EXPECT_NE(unknown.output.find("has no tensor \"no\""), std::string::npos);
}

TEST_F(CheckpointCommand, verify_ends_with_code_4_when_a_byte_is_wrong) {
  EXPECT_EQ(run({"verify", run_dir()}).code, ExitCode::kDone);
  std::ofstream(step("20") + "/state.h5", std::ios::app) << "x";
  const auto [code, output] = run({"verify", run_dir()});
  EXPECT_EQ(code, ExitCode::kCheckpoint);
  EXPECT_NE(output.find(step("20") + ": DAMAGED"), std::string::npos) << output;
  EXPECT_NE(output.find("1 of 4 checkpoints damaged"), std::string::npos) << output;
  EXPECT_EQ(run({"verify", step("20")}).code, ExitCode::kCheckpoint);
  EXPECT_EQ(run({"verify", step("30")}).code, ExitCode::kDone);
}

TEST_F(CheckpointCommand, diff_says_identical_or_what_differs) {
  EXPECT_EQ(run({"diff", step("30"), step("30")}).code, ExitCode::kDone);
  const auto same_values = run({"diff", step("10"), step("20")});
  EXPECT_EQ(same_values.code, ExitCode::kCheckpoint);
  EXPECT_NE(same_values.output.find("  step: 10 and 20\n  data.samples: 80 and 160\n"),
            std::string::npos)
      << same_values.output;
  EXPECT_EQ(same_values.output.find("model/"), std::string::npos) << same_values.output;
  const auto other_values = run({"diff", step("20"), run_dir()});
  EXPECT_NE(other_values.output.find("  model/embed.weight: "), std::string::npos);
}

TEST_F(CheckpointCommand, prune_keeps_what_it_is_told_and_respects_the_writer) {
  EXPECT_EQ(run({"prune", run_dir()}).code, ExitCode::kUsage);
  EXPECT_EQ(run({"prune", run_dir(), "--keep-latest", "1"}).code, ExitCode::kUsage);
  {
    const Lease writer(scratch_.path());
    EXPECT_EQ(run({"prune", run_dir(), "--keep-latest", "2"}).code, ExitCode::kCheckpoint);
  }
  const auto [code, output] = run({"prune", run_dir(), "--keep-latest", "2", "--keep-every", "20"});
  EXPECT_EQ(code, ExitCode::kDone);
  EXPECT_EQ(output, "removed the checkpoint of step 10\n");
  EXPECT_FALSE(fs::exists(step("10")));
  EXPECT_TRUE(fs::exists(step("20")));
}

}  // namespace
}  // namespace trireme
