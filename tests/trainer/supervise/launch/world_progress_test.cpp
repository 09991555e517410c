#include "trainer/supervise/launch/run_follower.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "parallel/comm/flight_recorder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using flight::Phase;

class WorldProgressTest : public testing::Test {
 protected:
  WorldProgressTest() {
    std::string name = (fs::temp_directory_path() / "movement-XXXXXX").string();
    run_ = ::mkdtemp(name.data());
    fs::create_directory(run_ / "flight-recorder");
    for (int r = 0; r < 2; ++r) {
      ledgers_[r].begin(r, 2, "node007");
      ledgers_[r].keep_in(run_ / "flight-recorder" / flight_recorder_file_name(r));
    }
  }
  void TearDown() override { fs::remove_all(run_); }

  WorldProgress look() const { return world_progress(run_, {.usual_s = 60, .storage_s = 1800}); }

  fs::path run_;
  std::array<FlightRecorder, 2> ledgers_;
};

TEST_F(WorldProgressTest, grows_with_each_rank_that_moves) {
  const std::uint64_t before = look().ticks;
  EXPECT_EQ(look().ticks, before);
  ledgers_[1].set_step(1);
  EXPECT_GT(look().ticks, before);
}

TEST_F(WorldProgressTest, is_awaited_longer_of_ranks_that_load_or_save_than_of_those_that_start) {
  EXPECT_EQ(look().limit_s, 60);
  ledgers_[1].enter(Phase::kLoad);
  EXPECT_EQ(look().limit_s, 1800);
  ledgers_[1].enter(Phase::kForward);
  EXPECT_EQ(look().limit_s, 60);
  ledgers_[0].enter(Phase::kSave);
  EXPECT_EQ(look().limit_s, 1800);
}

TEST_F(WorldProgressTest, of_a_run_without_ledgers_is_none) {
  const WorldProgress none = world_progress(run_ / "nowhere", {.usual_s = 60, .storage_s = 1800});
  EXPECT_EQ(none.ticks, 0u);
  EXPECT_EQ(none.limit_s, 0);
}

}  // namespace
}  // namespace trireme
