#include "checkpoint/memory/memory_store.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <deque>
#include <fstream>
#include <random>

#include "checkpoint/read/load.h"
#include "checkpoint/store/diff.h"
#include "model/base/error.h"
#include "parallel/comm/self_communicator.h"
#include "tests/checkpoint/state.h"

namespace trireme::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kPlenty = std::uint64_t{1} << 40;

// A process of a run of one rank.
struct Incarnation {
  explicit Incarnation(fs::path where, std::string uuid = new_uuid(), std::int64_t scale = 1)
      : place(std::move(where)),
        id(std::move(uuid)),
        own(1, scale),
        store(place, id, Nodes({0}), alone) {}

  void save(const State& state, std::int64_t step, std::int64_t sequence = 0) {
    if (!std::exchange(prepared, true)) store.prepare(own.pieces(), kPlenty);
    for (std::size_t i = 0; i < own.pieces().size(); ++i) {
      std::copy_n(state.pieces()[i].data, own.pieces()[i].bytes(), own.pieces()[i].data);
    }
    Manifest manifest;
    manifest.run = id;
    manifest.step = step;
    manifest.sequence = sequence;
    manifest.written = now_text();
    store.save(manifest);
  }
  std::optional<Loaded> load(State& state, std::optional<Lineage> disk = std::nullopt) {
    rejected.clear();
    return store.load_newest(state.pieces(), disk, rejected);
  }

  fs::path place;
  std::string id;
  State own;
  SelfCommunicator alone;
  MemoryStore store;
  bool prepared = false;
  std::vector<std::string> rejected;
};

fs::path shard_of(const fs::path& slot) {
  return slot / "shard-00000-of-00001.raw";
}

void flip(const fs::path& path, std::uint64_t at, int mask = 0x10) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(at));
  const int byte = file.get();
  file.seekp(static_cast<std::streamoff>(at));
  file.put(static_cast<char>(byte ^ mask));
}

std::string memory_error(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(MemoryStore, what_is_loaded_is_the_newest_that_was_saved) {
  const Scratch scratch;
  Incarnation run(scratch.path());
  State loaded;
  EXPECT_FALSE(run.load(loaded).has_value());
  EXPECT_TRUE(fs::is_empty(scratch.path()));
  for (const unsigned step : {1, 2, 3}) run.save(State(step), step);
  const auto found = run.load(loaded);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->step, 3);
  EXPECT_TRUE(found->manifest.in_memory());
  EXPECT_TRUE(run.rejected.empty());
  EXPECT_TRUE(loaded == State(3));
  run.store.remove();
  EXPECT_TRUE(fs::is_empty(scratch.path()));
}

TEST(MemoryStore, a_snapshot_verifies_and_compares_like_a_checkpoint) {
  const Scratch scratch, disk;
  const State state(5);
  Incarnation run(scratch.path());
  run.save(state, 7);
  const Lease lease(disk.path());
  Store store(disk.path(), lease);
  Snapshot plain;
  plain.manifest.step = 7;
  const fs::path committed = Saver(store, state.pieces()).save(plain).folder;
  const fs::path slot = run.store.folder().slot(0);
  EXPECT_EQ(problems_of(slot), std::vector<std::string>());
  EXPECT_TRUE(compare(slot, committed).empty());
  EXPECT_EQ(read_manifest(slot).state_crc, read_manifest(committed).state_crc);
  flip(shard_of(slot), 70);
  EXPECT_EQ(problems_of(slot).size(), 1u);
}

TEST(MemoryStore, what_is_newer_on_disk_goes_first) {
  const Scratch scratch;
  Incarnation run(scratch.path());
  const State state(5);
  run.save(state, 7, 3);
  State loaded;
  EXPECT_FALSE(run.load(loaded, Lineage{3, 8}).has_value());  // committed after it
  EXPECT_FALSE(run.load(loaded, Lineage{4, 6}).has_value());  // went back, and on from there
  EXPECT_FALSE(run.load(loaded, Lineage{3, 7}).has_value());
  EXPECT_TRUE(run.load(loaded, Lineage{2, 9}).has_value());
  EXPECT_TRUE(run.load(loaded, Lineage{3, 6}).has_value());  // not yet committed by then
  run.store.forget();
  EXPECT_FALSE(run.load(loaded).has_value());
}

TEST(MemoryStore, a_damaged_snapshot_is_told_and_the_one_before_taken) {
  const Scratch scratch;
  std::mt19937 random(4);
  for (int round = 0; round < 300; ++round) {
    const std::string id = new_uuid();
    const State older(8), newer(9);
    fs::path slot;
    {
      Incarnation run(scratch.path(), id);
      run.save(older, 8);
      run.save(newer, 9);
      slot = run.store.folder().slot(1);
    }
    const bool in_shard = round % 2 == 0;
    const fs::path path = in_shard ? shard_of(slot) : slot / "manifest.json";
    if (round % 10 == 0) {
      fs::resize_file(path, random() % fs::file_size(path));
    } else {
      flip(path, random() % fs::file_size(path), 1 << random() % 8);
    }
    Incarnation run(scratch.path(), id);
    State loaded;
    const auto found = run.load(loaded);
    ASSERT_TRUE(found.has_value()) << "round " << round;
    EXPECT_EQ(found->step, 8) << "round " << round;
    EXPECT_TRUE(loaded == State(8));
    ASSERT_EQ(run.rejected.size(), 1u);
    EXPECT_NE(run.rejected[0].find(path.filename().string()), std::string::npos) << run.rejected[0];
    run.store.remove();
  }
}

TEST(MemoryStore, a_slot_that_is_being_overwritten_holds_nothing) {
  const Scratch scratch;
  const std::string id = new_uuid();
  std::deque<State> states;
  for (unsigned seed = 1; seed <= 8; ++seed) states.emplace_back(seed, 20);
  const auto state_of = [&](std::int64_t step) -> State& { return states[std::size_t(step % 8)]; };
  std::mt19937 random(7);
  std::int64_t last = 0;
  for (int round = 0; round < 30; ++round) {
    int saved[2];
    ASSERT_EQ(::pipe(saved), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      Incarnation run(scratch.path(), id, 20);
      State state(0, 20);
      run.load(state);
      for (std::int64_t step = last + 1;; ++step) {
        run.save(state_of(step), step);
        if (::write(saved[1], "", 1) != 1) ::_exit(1);
      }
    }
    char byte = 0;
    EXPECT_EQ(::read(saved[0], &byte, 1), 1);
    ::usleep(static_cast<useconds_t>(random() % 3000));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    ::close(saved[0]);
    ::close(saved[1]);
    Incarnation run(scratch.path(), id, 20);
    State loaded(0, 20);
    const auto found = run.load(loaded);
    ASSERT_TRUE(found.has_value());
    EXPECT_TRUE(loaded == state_of(found->step)) << "step " << found->step;
    EXPECT_TRUE(run.rejected.empty()) << run.rejected[0];
    EXPECT_GT(found->step, last);
    last = found->step;
  }
}

TEST(MemoryStore, another_runs_snapshot_is_refused) {
  const Scratch scratch;
  Incarnation run(scratch.path()), other(scratch.path());
  run.save(State(1), 1);
  other.save(State(2), 2);
  fs::copy(other.store.folder().slot(0), run.store.folder().slot(1),
           fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  State loaded;
  EXPECT_EQ(run.load(loaded)->step, 1);
  ASSERT_EQ(run.rejected.size(), 1u);
  EXPECT_NE(run.rejected[0].find("belongs to run " + other.id), std::string::npos)
      << run.rejected[0];
}

TEST(MemoryStore, another_models_snapshot_is_refused_with_the_differences) {
  const Scratch scratch;
  Incarnation run(scratch.path());
  run.save(State(1), 1);
  State larger(0, 2);
  EXPECT_THROW(run.load(larger), MismatchError);
}

TEST(MemoryStore, a_node_without_room_or_a_second_process_is_told) {
  const Scratch scratch;
  Incarnation run(scratch.path());
  const State state(1);
  const std::string why = memory_error([&] { run.store.prepare(state.pieces(), 1000); });
  EXPECT_NE(why.find("two snapshots need 0.0223"), std::string::npos) << why;
  EXPECT_NE(why.find("MiB more on this node, and its memory has 0.0009"), std::string::npos) << why;
  run.save(state, 1);
  Incarnation second(scratch.path(), run.id);
  State loaded;
  const std::string other = memory_error([&] { second.load(loaded); });
  EXPECT_NE(other.find("another process uses " + run.store.folder().path().string()),
            std::string::npos)
      << other;
}

TEST(MemoryStore, what_nobody_came_back_to_for_a_day_the_next_run_removes) {
  const Scratch scratch;
  const State state(1);
  for (const bool running : {false, true}) {
    auto old = std::make_unique<Incarnation>(scratch.path());
    old->save(state, 1);
    const fs::path folder = old->store.folder().path();
    if (!running) old.reset();
    const auto at = [&](auto hours) {
      const auto then = fs::file_time_type::clock::now() - hours;
      for (const auto& entry : fs::recursive_directory_iterator(folder)) {
        fs::last_write_time(entry.path(), then);
      }
      fs::last_write_time(folder, then);
      Incarnation(scratch.path()).save(state, 1);
      return fs::exists(folder);
    };
    EXPECT_TRUE(at(MemoryFolder::kKeptFor - std::chrono::minutes(1)));
    EXPECT_EQ(at(MemoryFolder::kKeptFor + std::chrono::minutes(1)), running);
  }
}

}  // namespace
}  // namespace trireme::checkpoint
