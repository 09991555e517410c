#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "model/base/error.h"
#include "parallel/comm/flight_recorder.h"

namespace trireme {
namespace {

using flight::Operation;
using flight::Phase;

class LedgerFile : public testing::Test {
 protected:
  LedgerFile() { std::filesystem::create_directories(folder_); }
  ~LedgerFile() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("trireme-ledger-" + std::to_string(::getpid()));
  std::filesystem::path path_ = folder_ / "rank-00003";
};

TEST_F(LedgerFile, shows_what_the_rank_did_before_and_after_it_was_named) {
  FlightRecorder recorder;
  recorder.begin(3, 4, "node7");
  const int group = recorder.add_group("tensor", {2, 3});
  recorder.enter(Phase::kBackward);
  recorder.set_step(120);
  recorder.set_micro_batch(3);
  recorder.set_layer(17);
  recorder.end(recorder.begin_collective(group, Operation::kAllReduce, 4096));
  EXPECT_EQ(recorder.file(), "");
  recorder.keep_in(path_);
  EXPECT_EQ(recorder.file(), path_);
  recorder.begin_collective(group, Operation::kAllGather, 64);

  const FlightRecorderReader reader(path_);
  EXPECT_EQ(reader.header().rank, 3);
  EXPECT_EQ(reader.header().ranks, 4);
  EXPECT_EQ(reader.header().pid, ::getpid());
  EXPECT_STREQ(reader.header().host.data(), "node7");

  const FlightRecorderPage page = reader.page();
  EXPECT_EQ(page.phase(), Phase::kBackward);
  EXPECT_EQ(page.progress.step, 120);
  EXPECT_EQ(page.progress.micro_batch, 3);
  EXPECT_EQ(page.progress.layer, 17);
  EXPECT_EQ(page.operation(), Operation::kAllGather);
  EXPECT_EQ(page.progress.sequence, 2u);
  ASSERT_NE(page.group(), nullptr);
  EXPECT_EQ(page.group()->name, "tensor");
  EXPECT_EQ(page.group()->begun, 2u);
  EXPECT_EQ(page.group()->finished, 1u);

  const std::vector<flight::Call> calls = reader.calls();
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(static_cast<Operation>(calls[0].operation), Operation::kAllReduce);
  EXPECT_EQ(calls[0].bytes, 4096u);
  EXPECT_EQ(calls[0].layer, 17);
  EXPECT_EQ(calls[0].micro_batch, 3);
  EXPECT_EQ(calls[0].step, 120);
  EXPECT_LE(calls[0].start, calls[0].end);
  EXPECT_EQ(calls[1].sequence, 2u);
  EXPECT_EQ(calls[1].end, 0);
}

TEST_F(LedgerFile, tells_an_observer_of_each_phase_and_each_call_it_waits_in) {
  FlightRecorder recorder;
  recorder.begin(0, 2, "here");
  const int group = recorder.add_group("data", {0, 1});
  std::vector<std::pair<Phase, Operation>> told;
  recorder.observe([&](const flight::Progress& at) {
    told.emplace_back(static_cast<Phase>(at.phase), static_cast<Operation>(at.operation));
  });
  recorder.set_step(4);
  recorder.enter(Phase::kReduce);
  recorder.end(recorder.begin_collective(group, Operation::kAllReduce, 8));
  const FlightRecorder::Entry message = recorder.start_message(group, Operation::kReceive, 8, 1);
  recorder.enter(Phase::kOptimizer);
  recorder.wait_for(message);
  const std::vector<std::pair<Phase, Operation>> expected{{Phase::kReduce, Operation::kNone},
                                                          {Phase::kReduce, Operation::kAllReduce},
                                                          {Phase::kOptimizer, Operation::kNone},
                                                          {Phase::kOptimizer, Operation::kReceive}};
  EXPECT_EQ(told, expected);
}

TEST_F(LedgerFile, keeps_the_newest_calls_in_order) {
  FlightRecorder recorder;
  recorder.begin(0, 2, "here");
  recorder.keep_in(path_);
  const int group = recorder.add_group("pipeline_down", {0, 1});
  const FlightRecorder::Entry old = recorder.start_message(group, Operation::kSend, 1, 1);
  for (std::uint64_t i = 0; i < flight::kCalls + 5; ++i) {
    recorder.end(recorder.begin_collective(group, Operation::kBarrier, i));
  }
  recorder.end(old);  // its place is another's by now
  const std::vector<flight::Call> calls = FlightRecorderReader(path_).calls();
  ASSERT_EQ(calls.size(), flight::kCalls);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(calls[i].bytes, i + 5);
    EXPECT_EQ(calls[i].sequence, i + 6);
    EXPECT_LE(calls[i].start, calls[i].end);
  }
}

TEST_F(LedgerFile, survives_a_kill) {
  const pid_t child = ::fork();
  if (child == 0) {
    FlightRecorder recorder;
    recorder.begin(1, 2, "here");
    recorder.keep_in(path_);
    const int group = recorder.add_group("data", {0, 1});
    recorder.enter(Phase::kReduce);
    recorder.begin_collective(group, Operation::kReduceScatter, 12);
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  const FlightRecorderReader reader(path_);
  EXPECT_EQ(reader.page().phase(), Phase::kReduce);
  EXPECT_EQ(reader.page().operation(), Operation::kReduceScatter);
  ASSERT_EQ(reader.calls().size(), 1u);
  EXPECT_EQ(reader.calls()[0].bytes, 12u);
}

TEST_F(LedgerFile, never_shows_a_mixture_while_it_is_written) {
  FlightRecorder recorder;
  recorder.begin(0, 1, "here");
  recorder.keep_in(path_);
  const int group = recorder.add_group("all", {0, 1});
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (int i = 1; !stop; ++i) {
      recorder.set_step(i);
      recorder.set_micro_batch(i);
      recorder.set_layer(i);
      recorder.end(
          recorder.begin_collective(group, Operation::kAllReduce, static_cast<unsigned>(i)));
      recorder.set_layer(-1);
    }
  });
  const FlightRecorderReader reader(path_);
  std::uint64_t tick = 0;
  for (int i = 0; i < 2000; ++i) {
    const flight::Progress seen = reader.page().progress;
    if (seen.layer >= 0) {
      EXPECT_EQ(seen.layer, seen.micro_batch);
    }
    EXPECT_LE(tick, seen.tick);
    tick = seen.tick;
    if (i % 100 != 0) continue;
    for (const flight::Call& call : reader.calls()) {
      EXPECT_EQ(static_cast<std::int64_t>(call.bytes), call.step);
      EXPECT_EQ(call.bytes, call.sequence);
    }
  }
  stop = true;
  writer.join();
}

TEST_F(LedgerFile, of_an_older_run_is_replaced_and_left_whole_for_who_reads_it) {
  FlightRecorder first;
  first.begin(3, 4, "here");
  first.set_step(7);
  first.keep_in(path_);
  const FlightRecorderReader reader(path_);
  FlightRecorder second;
  second.begin(3, 2, "here");
  second.keep_in(path_);
  EXPECT_EQ(reader.header().ranks, 4);
  EXPECT_EQ(reader.page().progress.step, 7);
  EXPECT_EQ(FlightRecorderReader(path_).header().ranks, 2);
}

TEST_F(LedgerFile, without_a_folder_stays_in_memory) {
  FlightRecorder recorder;
  recorder.begin(0, 1, "here");
  EXPECT_THROW(recorder.keep_in(folder_ / "none" / "rank-00000"), EnvironmentError);
  EXPECT_EQ(recorder.file(), "");
  recorder.set_step(3);
  EXPECT_EQ(recorder.page().progress.step, 3);
}

TEST_F(LedgerFile, of_something_else_is_refused) {
  std::ofstream(path_) << std::string(sizeof(flight::Layout), 'x');
  EXPECT_THROW(FlightRecorderReader{path_}, EnvironmentError);
  std::ofstream(path_) << "short";
  EXPECT_THROW(FlightRecorderReader{path_}, EnvironmentError);
}

TEST(FlightRecorder, gives_the_place_of_a_group_that_went_to_another) {
  FlightRecorder recorder;
  recorder.begin(0, 2, "here");
  for (std::size_t i = 0; i < 3 * flight::kGroups; ++i) {
    const int group = recorder.add_group("of_a_test", {0, 1});
    EXPECT_EQ(recorder.begin_collective(group, Operation::kBarrier, 0).call.sequence, 1u);
    recorder.remove_group(group);
  }
  for (std::size_t i = 0; i < flight::kGroups; ++i) recorder.add_group("one", {0, 1});
  EXPECT_THROW(recorder.add_group("too many", {0, 1}), Error);
}

}  // namespace
}  // namespace trireme
