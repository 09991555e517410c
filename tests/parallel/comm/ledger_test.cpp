#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "model/base/error.h"
#include "parallel/comm/ledger.h"

namespace trireme {
namespace {

using ledger::Operation;
using ledger::Phase;

class LedgerFile : public testing::Test {
 protected:
  LedgerFile() { std::filesystem::create_directories(folder_); }
  ~LedgerFile() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("trireme-ledger-" + std::to_string(::getpid()));
  std::filesystem::path path_ = folder_ / "rank-00003";
};

TEST_F(LedgerFile, shows_what_the_rank_did_before_and_after_it_was_named) {
  Ledger ledger;
  ledger.begin(3, 4, "node7");
  const int group = ledger.add_group("tensor", {2, 3});
  ledger.enter(Phase::kBackward);
  ledger.set_step(120);
  ledger.set_micro_batch(3);
  ledger.set_layer(17);
  ledger.end(ledger.begin_collective(group, Operation::kAllReduce, 4096));
  EXPECT_EQ(ledger.file(), "");
  ledger.keep_in(path_);
  EXPECT_EQ(ledger.file(), path_);
  ledger.begin_collective(group, Operation::kAllGather, 64);

  const LedgerReader reader(path_);
  EXPECT_EQ(reader.header().rank, 3);
  EXPECT_EQ(reader.header().ranks, 4);
  EXPECT_EQ(reader.header().pid, ::getpid());
  EXPECT_STREQ(reader.header().host.data(), "node7");

  const LedgerPage page = reader.page();
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

  const std::vector<ledger::Call> calls = reader.calls();
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
  Ledger ledger;
  ledger.begin(0, 2, "here");
  const int group = ledger.add_group("data", {0, 1});
  std::vector<std::pair<Phase, Operation>> told;
  ledger.observe([&](const ledger::Progress& at) {
    told.emplace_back(static_cast<Phase>(at.phase), static_cast<Operation>(at.operation));
  });
  ledger.set_step(4);
  ledger.enter(Phase::kReduce);
  ledger.end(ledger.begin_collective(group, Operation::kAllReduce, 8));
  const Ledger::Entry message = ledger.start_message(group, Operation::kReceive, 8, 1);
  ledger.enter(Phase::kOptimizer);
  ledger.wait_for(message);
  const std::vector<std::pair<Phase, Operation>> expected{{Phase::kReduce, Operation::kNone},
                                                          {Phase::kReduce, Operation::kAllReduce},
                                                          {Phase::kOptimizer, Operation::kNone},
                                                          {Phase::kOptimizer, Operation::kReceive}};
  EXPECT_EQ(told, expected);
}

TEST_F(LedgerFile, keeps_the_newest_calls_in_order) {
  Ledger ledger;
  ledger.begin(0, 2, "here");
  ledger.keep_in(path_);
  const int group = ledger.add_group("pipeline_down", {0, 1});
  const Ledger::Entry old = ledger.start_message(group, Operation::kSend, 1, 1);
  for (std::uint64_t i = 0; i < ledger::kCalls + 5; ++i) {
    ledger.end(ledger.begin_collective(group, Operation::kBarrier, i));
  }
  ledger.end(old);  // its place is another's by now
  const std::vector<ledger::Call> calls = LedgerReader(path_).calls();
  ASSERT_EQ(calls.size(), ledger::kCalls);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(calls[i].bytes, i + 5);
    EXPECT_EQ(calls[i].sequence, i + 6);
    EXPECT_LE(calls[i].start, calls[i].end);
  }
}

TEST_F(LedgerFile, survives_a_kill) {
  const pid_t child = ::fork();
  if (child == 0) {
    Ledger ledger;
    ledger.begin(1, 2, "here");
    ledger.keep_in(path_);
    const int group = ledger.add_group("data", {0, 1});
    ledger.enter(Phase::kReduce);
    ledger.begin_collective(group, Operation::kReduceScatter, 12);
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  const LedgerReader reader(path_);
  EXPECT_EQ(reader.page().phase(), Phase::kReduce);
  EXPECT_EQ(reader.page().operation(), Operation::kReduceScatter);
  ASSERT_EQ(reader.calls().size(), 1u);
  EXPECT_EQ(reader.calls()[0].bytes, 12u);
}

TEST_F(LedgerFile, never_shows_a_mixture_while_it_is_written) {
  Ledger ledger;
  ledger.begin(0, 1, "here");
  ledger.keep_in(path_);
  const int group = ledger.add_group("all", {0, 1});
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (int i = 1; !stop; ++i) {
      ledger.set_step(i);
      ledger.set_micro_batch(i);
      ledger.set_layer(i);
      ledger.end(ledger.begin_collective(group, Operation::kAllReduce, static_cast<unsigned>(i)));
      ledger.set_layer(-1);
    }
  });
  const LedgerReader reader(path_);
  std::uint64_t tick = 0;
  for (int i = 0; i < 2000; ++i) {
    const ledger::Progress seen = reader.page().progress;
    if (seen.layer >= 0) {
      EXPECT_EQ(seen.layer, seen.micro_batch);
    }
    EXPECT_LE(tick, seen.tick);
    tick = seen.tick;
    if (i % 100 != 0) continue;
    for (const ledger::Call& call : reader.calls()) {
      EXPECT_EQ(static_cast<std::int64_t>(call.bytes), call.step);
      EXPECT_EQ(call.bytes, call.sequence);
    }
  }
  stop = true;
  writer.join();
}

TEST_F(LedgerFile, of_an_older_run_is_replaced_and_left_whole_for_who_reads_it) {
  Ledger first;
  first.begin(3, 4, "here");
  first.set_step(7);
  first.keep_in(path_);
  const LedgerReader reader(path_);
  Ledger second;
  second.begin(3, 2, "here");
  second.keep_in(path_);
  EXPECT_EQ(reader.header().ranks, 4);
  EXPECT_EQ(reader.page().progress.step, 7);
  EXPECT_EQ(LedgerReader(path_).header().ranks, 2);
}

TEST_F(LedgerFile, without_a_folder_stays_in_memory) {
  Ledger ledger;
  ledger.begin(0, 1, "here");
  EXPECT_THROW(ledger.keep_in(folder_ / "none" / "rank-00000"), EnvironmentError);
  EXPECT_EQ(ledger.file(), "");
  ledger.set_step(3);
  EXPECT_EQ(ledger.page().progress.step, 3);
}

TEST_F(LedgerFile, of_something_else_is_refused) {
  std::ofstream(path_) << std::string(sizeof(ledger::Layout), 'x');
  EXPECT_THROW(LedgerReader{path_}, EnvironmentError);
  std::ofstream(path_) << "short";
  EXPECT_THROW(LedgerReader{path_}, EnvironmentError);
}

TEST(Ledger, gives_the_place_of_a_group_that_went_to_another) {
  Ledger ledger;
  ledger.begin(0, 2, "here");
  for (std::size_t i = 0; i < 3 * ledger::kGroups; ++i) {
    const int group = ledger.add_group("of_a_test", {0, 1});
    EXPECT_EQ(ledger.begin_collective(group, Operation::kBarrier, 0).call.sequence, 1u);
    ledger.remove_group(group);
  }
  for (std::size_t i = 0; i < ledger::kGroups; ++i) ledger.add_group("one", {0, 1});
  EXPECT_THROW(ledger.add_group("too many", {0, 1}), Error);
}

}  // namespace
}  // namespace trireme
