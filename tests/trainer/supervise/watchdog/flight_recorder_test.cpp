#include "trainer/supervise/watchdog/flight_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "model/base/error.h"
#include "parallel/comm/flight_recorder.h"
#include "trainer/supervise/watchdog/recorder_folder.h"
#include "trainer/supervise/watchdog/recorder_text.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using flight::Ending;
using flight::Operation;
using flight::Phase;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

// Three ranks of another host, in step 7.
class Recorder : public testing::Test {
 protected:
  Recorder() {
    std::string name = (fs::temp_directory_path() / "flight-recorder-XXXXXX").string();
    run_ = ::mkdtemp(name.data());
    folder_ = run_ / kRecorderFolder;
    fs::create_directory(folder_);
    for (int r = 0; r < 3; ++r) {
      ledgers_[r].begin(r, 3, "node007");
      ledgers_[r].keep_in(folder_ / flight_recorder_file_name(r));
      group_ = ledgers_[r].add_group("data", {0, 1, 2});
      ledgers_[r].set_step(7);
      ledgers_[r].enter(Phase::kReduce);
    }
  }
  void TearDown() override { fs::remove_all(run_); }

  void waits(int rank) { ledgers_[rank].begin_collective(group_, Operation::kAllReduce, 64); }
  RankRecordings read() const { return read_flight_recorder(run_); }

  fs::path run_, folder_;
  std::array<FlightRecorder, 3> ledgers_;
  int group_ = 0;
};

TEST_F(Recorder, of_ranks_that_left_in_order_blames_nobody) {
  for (FlightRecorder& ledger : ledgers_) ledger.close(Ending::kDone);
  ledgers_[0].close(Ending::kFailed);  // the first word counts
  EXPECT_FALSE(judge(read()));
  EXPECT_THAT(recorder_text(read()), HasSubstr("verdict: none: every rank finished\n"));
}

TEST_F(Recorder, blames_the_one_that_did_not_say_why_it_ended) {
  waits(0);
  waits(2);
  ledgers_[0].close(Ending::kByPeer);
  ledgers_[2].close(Ending::kByPeer);
  const auto verdict = judge(read());
  ASSERT_TRUE(verdict);
  EXPECT_THAT(verdict->ranks, ElementsAre(1));
  EXPECT_THAT(verdict->text, StartsWith("rank 1 (node007) was killed or crashed"));
  EXPECT_THAT(verdict->text, HasSubstr("in step 7, reduction; blocked on it for"));
  EXPECT_THAT(verdict->text, HasSubstr("ranks 0 and 2 in all_reduce 1 of group data [0 1 2]"));
}

TEST_F(Recorder, blames_the_one_that_failed) {
  waits(0);
  waits(1);
  ledgers_[0].close(Ending::kByPeer);
  ledgers_[1].close(Ending::kByPeer);
  ledgers_[2].close(Ending::kFailed);
  EXPECT_THAT(judge(read())->ranks, ElementsAre(2));
}

TEST_F(Recorder, of_ranks_that_all_were_ended_blames_the_one_they_waited_for) {
  waits(0);
  waits(2);
  for (FlightRecorder& ledger : ledgers_) ledger.close(Ending::kByPeer);
  const auto verdict = judge(read());
  ASSERT_TRUE(verdict);
  EXPECT_THAT(verdict->ranks, ElementsAre(1));
  EXPECT_THAT(verdict->text, HasSubstr("made no progress for"));
}

TEST_F(Recorder, of_ranks_that_were_killed_blames_the_one_that_others_saw_go_first) {
  waits(0);
  waits(2);
  note_loss(folder_ / flight_recorder_file_name(2),
            {.at = flight_recorder_now() + 90'000'000, .rank = 0});
  note_loss(folder_ / flight_recorder_file_name(0), {.at = flight_recorder_now(), .rank = 1});
  const auto verdict = judge(read());
  ASSERT_TRUE(verdict);
  EXPECT_THAT(verdict->ranks, ElementsAre(1));
  EXPECT_THAT(verdict->text, HasSubstr("; rank 0 exited after it"));
}

TEST_F(Recorder, shows_where_each_rank_was) {
  ledgers_[1].enter(Phase::kBackward);
  ledgers_[1].set_micro_batch(3);
  ledgers_[1].set_layer(17);
  waits(0);
  const std::string text = recorder_text(read());
  EXPECT_THAT(text, testing::ContainsRegex("\n1 +node007 +[0-9]+ +on another host +7 +backward +3 "
                                           "+17 +- +- +[0-9.]+ s\n"));
  EXPECT_THAT(text, testing::ContainsRegex("\n0 +node007 .* all_reduce 1 of data +1 2 +[0-9.]+ s"));
}

TEST_F(Recorder, of_one_that_kept_none_says_so) {
  fs::remove(folder_ / flight_recorder_file_name(1));
  EXPECT_THAT(recorder_text(read()), testing::ContainsRegex("\n1 +- +- +no recording"));
}

TEST_F(Recorder, refuses_what_is_no_ledger_or_anothers) {
  fs::copy_file(folder_ / flight_recorder_file_name(0), folder_ / flight_recorder_file_name(3));
  EXPECT_THROW(read(), EnvironmentError) << "it calls itself that of rank 0";
  fs::remove(folder_ / flight_recorder_file_name(3));
  FlightRecorder of_two;
  of_two.begin(2, 4, "node007");
  of_two.keep_in(folder_ / flight_recorder_file_name(2));
  EXPECT_THROW(read(), EnvironmentError) << "of a run of 4 ranks";
  std::ofstream(folder_ / flight_recorder_file_name(2)) << "no ledger";
  EXPECT_THROW(read(), EnvironmentError);
  EXPECT_THROW(read_flight_recorder(run_ / "nowhere"), EnvironmentError);
}

TEST_F(Recorder, keeps_those_of_five_incarnations) {
  std::ofstream(folder_ / "rank-00004.new") << "half written";
  for (int incarnation = 1; incarnation < 8; ++incarnation) {
    archive_recordings(folder_);
    EXPECT_TRUE(recordings_in(folder_).empty());
    EXPECT_FALSE(fs::exists(folder_ / "rank-00004.new"));
    std::ofstream(folder_ / flight_recorder_file_name(0)) << incarnation;
  }
  for (int age = 1; age <= kPreviousRecorders; ++age) {
    std::ifstream file(folder_ / say("previous-", age) / flight_recorder_file_name(0));
    int incarnation = 0;
    file >> incarnation;
    EXPECT_EQ(incarnation, 7 - age);
  }
  EXPECT_FALSE(fs::exists(folder_ / say("previous-", kPreviousRecorders + 1)));
}

}  // namespace
}  // namespace trireme
