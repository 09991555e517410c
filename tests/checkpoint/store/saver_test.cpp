#include "checkpoint/store/saver.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "checkpoint/read/load.h"
#include "model/base/error.h"
#include "tests/checkpoint/state.h"

namespace trireme::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMost = std::size_t{64} << 20;

// One rank with a writer of its own.
class Saving : public testing::Test {
 protected:
  Saver saver(const State& state, std::optional<Retention> retention = std::nullopt) {
    return {store_, state.pieces(), &writer_, retention};
  }
  void expect_holds(std::int64_t step, unsigned seed) {
    State loaded(0, kScale);
    EXPECT_EQ(Store(scratch_.path()).load_step(step, loaded.pieces()).step, step);
    EXPECT_TRUE(loaded == State(seed, kScale));
    EXPECT_EQ(problems_of(store_.folder() / step_name(step)), std::vector<std::string>());
  }

  static constexpr std::int64_t kScale = 500;  // 4.9 MB
  Scratch scratch_;
  Lease lease_{scratch_.path()};
  Store store_{scratch_.path(), lease_};
  BackgroundWriter writer_{kMost};
};

TEST_F(Saving, keeps_the_state_as_it_was_when_the_save_began) {
  State state(1, kScale);
  Saver saver = this->saver(state);
  for (unsigned seed = 1; seed <= 3; ++seed) {
    state.fill(seed);
    saver.begin(state.snapshot(seed));
    EXPECT_TRUE(saver.busy());
    state.fill(99);
    const auto saved = saver.finish();
    EXPECT_FALSE(saver.busy());
    EXPECT_EQ(saved.step, seed);
    EXPECT_EQ(saved.folder, store_.folder() / step_name(seed));
    expect_holds(seed, seed);
  }
  EXPECT_EQ(read_manifest(store_.folder() / "step-00000003").parent, 2);
}

TEST_F(Saving, goes_on_by_asking_and_never_waits) {
  const State state(5, kScale);
  Saver saver = this->saver(state);
  saver.begin(state.snapshot(4));
  int asked = 0;
  std::optional<Committed> saved;
  while (!saved) {
    for (; saver.waits(); ++asked) ::usleep(100);
    saved = saver.advance();
  }
  EXPECT_GT(asked, 0);
  EXPECT_EQ(saved->step, 4);
  expect_holds(4, 5);
}

TEST_F(Saving, writes_the_digests_that_follow_from_the_tensors) {
  const State state(5, kScale);
  Saver saver = this->saver(state);
  Snapshot snapshot = state.snapshot(4);
  snapshot.add_digests = [](Manifest& manifest) {
    manifest.digests["tensors"] = manifest.tensors.size();
  };
  saver.begin(snapshot);
  saver.finish();
  const Manifest manifest = read_manifest(store_.folder() / "step-00000004");
  EXPECT_EQ(manifest.digests["tensors"], state.pieces().size());
  EXPECT_EQ(manifest.digests["loss"], "400921fb54442d18");
}

TEST_F(Saving, removes_what_retention_does_not_keep) {
  State state(1, kScale);
  Saver saver = this->saver(state, Retention{.keep_latest = 2, .keep_every = 3});
  std::vector<std::int64_t> removed;
  for (unsigned step = 1; step <= 6; ++step) {
    state.fill(step);
    saver.begin(state.snapshot(step));
    const auto saved = saver.finish();
    EXPECT_EQ(saved.not_removed, "");
    removed.insert(removed.end(), saved.removed.begin(), saved.removed.end());
  }
  EXPECT_EQ(removed, (std::vector<std::int64_t>{1, 2, 4}));
  for (const unsigned step : {3u, 5u, 6u}) expect_holds(step, step);
}

TEST_F(Saving, a_killed_writer_costs_one_checkpoint_and_the_next_has_a_new_one) {
  State state(7, kScale);
  Saver saver = this->saver(state);
  saver.begin(state.snapshot(1));
  saver.finish();
  saver.begin(state.snapshot(2));
  ::kill(writer_.process.id(), SIGKILL);
  EXPECT_THROW(saver.finish(), EnvironmentError);
  EXPECT_FALSE(saver.busy());
  for (const auto& entry : fs::directory_iterator(store_.folder())) {
    EXPECT_NE(entry.path().filename().string()[0], '.') << entry.path();
  }
  expect_holds(1, 7);
  state.fill(8);
  saver.begin(state.snapshot(3));
  saver.finish();
  expect_holds(3, 8);

  // Killed between two saves, it is replaced without anybody noticing.
  const pid_t before = writer_.process.id();
  ::kill(before, SIGKILL);
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(before), &ended, WEXITED | WNOWAIT), 0);
  saver.begin(state.snapshot(4));
  saver.finish();
  EXPECT_NE(writer_.process.id(), before);
  expect_holds(4, 8);
}

TEST_F(Saving, an_error_of_the_writer_is_thrown_here_and_nothing_is_left) {
  const State state(7, kScale);
  Saver saver = this->saver(state);
  Snapshot snapshot = state.snapshot(1);
  snapshot.after_files = {scratch_.path() / "absent"};
  saver.begin(snapshot);
  try {
    saver.finish();
    ADD_FAILURE() << "it was committed";
  } catch (const EnvironmentError& error) {
    EXPECT_NE(std::string(error.what()).find("absent"), std::string::npos) << error.what();
  }
  EXPECT_TRUE(store_.list().empty());
  saver.begin(state.snapshot(1));
  saver.finish();
  expect_holds(1, 7);
}

TEST_F(Saving, without_the_lease_nothing_is_committed) {
  const State state(7, kScale);
  Saver saver = this->saver(state);
  saver.begin(state.snapshot(1));
  fs::remove(scratch_.path() / "LEASE.json");
  EXPECT_THROW(saver.finish(), CheckpointError);
  EXPECT_TRUE(store_.list().empty());
}

// Without a writer the same phases are done at once, by this process.
TEST_F(Saving, without_a_writer_waits_and_copies_nothing) {
  State state(1, kScale);
  Saver saver(store_, state.pieces(), nullptr, Retention{.keep_latest = 2, .keep_every = 0});
  saver.begin(state.snapshot(1));
  EXPECT_TRUE(saver.busy());
  EXPECT_FALSE(saver.waits());
  state.fill(99);  // its shard is on disk
  EXPECT_EQ(saver.finish().step, 1);
  expect_holds(1, 1);
  for (unsigned step = 2; step <= 3; ++step) {
    state.fill(step);
    const Committed committed = saver.save(state.snapshot(step));
    EXPECT_EQ(committed.removed.size(), step == 3 ? 1u : 0u);
    EXPECT_EQ(committed.not_removed, "");
    expect_holds(step, step);
  }
  saver.begin(state.snapshot(4));
  fs::remove(scratch_.path() / "LEASE.json");
  EXPECT_THROW(saver.finish(), CheckpointError);
  EXPECT_FALSE(saver.busy());
  EXPECT_EQ(store_.list().size(), 2u);
}

}  // namespace
}  // namespace trireme::checkpoint
