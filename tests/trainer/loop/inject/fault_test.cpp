#include "trainer/loop/inject/fault.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>

#include "model/base/error.h"
#include "parallel/comm/flight_recorder.h"

namespace trireme::inject {
namespace {

using flight::Operation;
using flight::Phase;

std::optional<FaultInjection> fault_from(const std::optional<std::string>& text) {
  return FaultInjection::from([&](const char* name) -> std::optional<std::string> {
    EXPECT_STREQ(name, FaultInjection::kVariable);
    return text;
  });
}

// A rank of two whose ledger advances through a step.
class FaultInjectionStep : public testing::Test {
 protected:
  static void make_step(FaultInjection fault, int rank, std::int64_t step) {
    FlightRecorder ledger;
    ledger.begin(rank, 2, "here");
    ledger.observe([&](const flight::Progress& at) { fault.apply(rank, at); });
    const int group = ledger.add_group("data", {0, 1});
    ledger.set_step(step);
    for (const Phase phase : {Phase::kData, Phase::kForward, Phase::kBackward, Phase::kReduce}) {
      ledger.enter(phase);
    }
    ledger.end(ledger.begin_collective(group, Operation::kAllReduce, 8));
    const FlightRecorder::Entry message =
        ledger.start_message(group, Operation::kSend, 8, 1 - rank);
    ledger.wait_for(message);
    ledger.end(message);
    ledger.enter(Phase::kGradNorm);
  }
  void TearDown() override { std::filesystem::remove(file_); }

  std::filesystem::path file_ =
      std::filesystem::temp_directory_path() / ("trireme-fault-" + std::to_string(::getpid()));
};

TEST(FaultInjection, is_off_unless_its_variable_is_set) {
  EXPECT_FALSE(fault_from(std::nullopt));
  EXPECT_TRUE(fault_from("rank=2 step=5 phase=backward action=kill once=/tmp/injected"));
  EXPECT_TRUE(fault_from("action=hang step=0  phase=start rank=0"));
  EXPECT_TRUE(
      fault_from("rank=2 step=5 phase=gradient-norm action=exit; rank=0 step=7 phase=receive "
                 "action=stop"));
}

TEST(FaultInjection, refuses_invalid_text) {
  for (const char* text :
       {"", "rank=2", "rank=-1 step=5 phase=data action=kill",
        "rank=1 step=x phase=data action=kill", "rank=1 step=5 phase=lunch action=kill",
        "rank=1 step=5 phase=nothing action=kill", "rank=1 step=5 phase=data action=faint",
        "rank=1 step=5 phase=data action=kill once=", "rank=1 step=5 phase=data action=kill rank=1",
        "rank=1 step=5 phase=data action=kill times=2",
        "rank=1 step=5 phase=data action=kill count=0", "rank=1 step=5 phase=data action=kill;;"}) {
    EXPECT_THROW(fault_from(text), ConfigError) << text;
  }
}

TEST_F(FaultInjectionStep, hits_the_rank_in_the_phase_or_operation_from_the_step_on) {
  for (const char* phase : {"data", "backward", "gradient-norm", "all_reduce", "send"}) {
    const auto fault = fault_from(say("rank=1 step=5 phase=", phase, " action=throw"));
    EXPECT_THROW(make_step(*fault, 1, 5), std::runtime_error) << phase;
    EXPECT_NO_THROW(make_step(*fault, 0, 5)) << phase;
    EXPECT_NO_THROW(make_step(*fault, 1, 4)) << phase;
    EXPECT_THROW(make_step(*fault, 1, 6), std::runtime_error) << phase;
  }
  EXPECT_NO_THROW(make_step(*fault_from("rank=1 step=5 phase=optimizer action=throw"), 1, 5));
  EXPECT_NO_THROW(make_step(*fault_from("rank=1 step=5 phase=receive action=throw"), 1, 5));
}

TEST_F(FaultInjectionStep, leaves_its_place_in_the_ledger) {
  FlightRecorder ledger;
  ledger.begin(0, 1, "here");
  auto fault = fault_from("rank=0 step=3 phase=optimizer action=throw");
  ledger.observe([&](const flight::Progress& at) { fault->apply(0, at); });
  ledger.set_step(3);
  EXPECT_THROW(ledger.enter(Phase::kOptimizer), std::runtime_error);
  EXPECT_EQ(ledger.page().phase(), Phase::kOptimizer);
}

TEST_F(FaultInjectionStep, passes_over_the_times_before_its_count) {
  FlightRecorder ledger;
  ledger.begin(0, 1, "here");
  auto fault = fault_from("rank=0 step=3 phase=forward action=throw count=3");
  ledger.observe([&](const flight::Progress& at) { fault->apply(0, at); });
  ledger.set_step(3);
  for (int time = 1; time <= 2; ++time) {
    EXPECT_NO_THROW(ledger.enter(Phase::kForward)) << time;
    EXPECT_NO_THROW(ledger.enter(Phase::kBackward)) << time;
  }
  EXPECT_THROW(ledger.enter(Phase::kForward), std::runtime_error);
}

TEST_F(FaultInjectionStep, repeats_unless_its_once_file_exists) {
  const std::string each = "rank=1 step=5 phase=data action=throw";
  EXPECT_THROW(make_step(*fault_from(each), 1, 5), std::runtime_error);
  EXPECT_THROW(make_step(*fault_from(each), 1, 5), std::runtime_error);
  const auto once = fault_from(each + " once=" + file_.string());
  EXPECT_NO_THROW(make_step(*once, 1, 4));
  EXPECT_FALSE(std::filesystem::exists(file_));
  EXPECT_THROW(make_step(*once, 1, 5), std::runtime_error);
  EXPECT_TRUE(std::filesystem::exists(file_));
  EXPECT_NO_THROW(make_step(*once, 1, 5));
  const auto lost = fault_from(each + " once=" + (file_ / "no/such").string());
  EXPECT_THROW(make_step(*lost, 1, 5), EnvironmentError);
}

TEST_F(FaultInjectionStep, delays_each_time_the_rank_comes_to_the_phase) {
  const auto fault = fault_from("rank=1 step=5 phase=forward action=delay");
  const auto took = [&](std::int64_t step) {
    const auto begin = std::chrono::steady_clock::now();
    make_step(*fault, 1, step);
    return std::chrono::steady_clock::now() - begin;
  };
  EXPECT_GE(took(5), std::chrono::milliseconds(50));
  EXPECT_GE(took(6), std::chrono::milliseconds(50));
}

TEST_F(FaultInjectionStep, ends_the_process_by_its_action) {
  const auto ends = [](const char* action) {
    make_step(*fault_from(say("rank=1 step=5 phase=forward action=", action)), 1, 5);
  };
  EXPECT_EXIT(ends("kill"), testing::KilledBySignal(SIGKILL), "");
  EXPECT_EXIT(ends("abort"), testing::KilledBySignal(SIGABRT), "");
  EXPECT_EXIT(ends("exit"), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace trireme::inject
