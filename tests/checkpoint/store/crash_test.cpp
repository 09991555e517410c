#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <random>

#include "checkpoint/hdf5/child.h"
#include "checkpoint/read/load.h"
#include "checkpoint/store/commit.h"
#include "model/base/error.h"
#include "tests/checkpoint/state.h"

namespace trireme::checkpoint {
namespace {

namespace fs = std::filesystem;

// Takes the run over where the last writer left it and commits until it is killed.
[[noreturn]] void write_for_ever(const fs::path& run) {
  try {
    const Lease lease(run);
    Store store(run, lease);
    State state;
    const auto found = store.load_newest(state.pieces());
    for (std::int64_t step = found ? found->step + 1 : 1;; ++step) {
      state.fill(unsigned(step));
      commit(store, state, step);
      store.prune({2, 0});
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "writer: %s\n", error.what());
  }
  ::_exit(1);
}

std::vector<pid_t> children_of(pid_t parent) {
  std::ifstream file(say("/proc/", parent, "/task/", parent, "/children"));
  std::vector<pid_t> children;
  for (pid_t child = 0; file >> child;) children.push_back(child);
  return children;
}

TEST(Crash, a_kill_at_any_moment_leaves_only_good_checkpoints) {
  const Scratch scratch;
  std::mt19937 random(4);
  std::int64_t newest = 0;
  const auto begin = std::chrono::steady_clock::now();
  {
    const Lease lease(scratch.path());
    Store store(scratch.path(), lease);
    commit(store, State(1), ++newest);
  }
  const std::chrono::duration<double, std::micro> commit = std::chrono::steady_clock::now() - begin;
  const auto most = static_cast<unsigned>(4 * commit.count());
  for (int round = 0; round < 25; ++round) {
    const pid_t writer = ::fork();
    if (writer == 0) write_for_ever(scratch.path());
    ::usleep(unsigned(random() % most));
    ::kill(writer, SIGKILL);
    int status = 0;
    ::waitpid(writer, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status));  // it never gave up by itself

    State loaded;
    const auto found = Store(scratch.path()).load_newest(loaded.pieces());
    ASSERT_TRUE(found.has_value());
    ASSERT_TRUE(found->rejected.empty()) << found->rejected[0];
    ASSERT_GE(found->step, newest);
    ASSERT_TRUE(loaded == State(unsigned(found->step)));
    newest = found->step;
    for (const Summary& summary : Store(scratch.path()).list()) {
      ASSERT_TRUE(problems_of(summary.folder).empty()) << problems_of(summary.folder)[0];
    }
  }
  EXPECT_GT(newest, 5);
  const Lease lease(scratch.path());
  const Store store(scratch.path(), lease);  // sweeps
  for (const auto& entry : fs::directory_iterator(store.folder())) {
    EXPECT_NE(entry.path().filename().string()[0], '.');
  }
}

// While it lives, children of this process stand still from their first instruction on, so that
// whoever means to kill one is in time.
class StoppedChildren {
 public:
  StoppedChildren() {
    static const int hooked = ::pthread_atfork(nullptr, nullptr, [] {
      if (wanted) ::raise(SIGSTOP);
    });
    EXPECT_EQ(hooked, 0);
    wanted = true;
  }
  StoppedChildren(const StoppedChildren&) = delete;
  StoppedChildren& operator=(const StoppedChildren&) = delete;
  ~StoppedChildren() { wanted = false; }

 private:
  static inline bool wanted = false;
};

TEST(Crash, a_killed_writer_process_costs_a_checkpoint_and_not_the_run) {
  const Scratch scratch;
  const Lease lease(scratch.path());
  Store store(scratch.path(), lease);
  const State state(5);
  commit(store, State(4), 1);
  const pid_t killer = ::fork();
  if (killer == 0) {
    const pid_t parent = ::getppid();
    while (true) {
      for (const pid_t child : children_of(parent)) {
        if (child == ::getpid()) continue;
        ::kill(child, SIGKILL);
        ::_exit(0);
      }
    }
  }
  std::string why;
  try {
    const StoppedChildren stopped;
    commit(store, state, 2);
  } catch (const EnvironmentError& error) {
    why = error.what();
  }
  ::waitpid(killer, nullptr, 0);
  EXPECT_NE(why.find("killed by signal 9"), std::string::npos) << why;
  EXPECT_EQ(store.list().size(), 1u);
  commit(store, state, 2);
  EXPECT_TRUE(problems_of(store.folder() / "step-00000002").empty());
}

TEST(Crash, what_a_child_throws_arrives_as_the_same_error) {
  EXPECT_EQ(in_child("x", [] { return std::string(100'000, 'y'); }), std::string(100'000, 'y'));
  EXPECT_THROW(in_child("x", []() -> std::string { throw EnvironmentError("full"); }),
               EnvironmentError);
  EXPECT_THROW(in_child("x", []() -> std::string { throw CheckpointError("bad"); }),
               CheckpointError);
  EXPECT_THROW(in_child("x", []() -> std::string { std::abort(); }), EnvironmentError);
  EXPECT_THROW(in_child("x", []() -> std::string { ::_exit(0); }), EnvironmentError);
}

// Runs `action` in a child process under a limit on file sizes.
std::string under_size_limit(rlim_t bytes, const std::function<void()>& action) {
  return in_child("limited", [&]() -> std::string {
    const rlimit limit{bytes, bytes};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      action();
    } catch (const EnvironmentError& error) {
      return error.what();
    }
    return "no error";
  });
}

TEST(Full, a_write_that_fails_in_the_middle_leaves_nothing_behind) {
  const Scratch scratch;
  const State state(6, 100);
  for (const rlim_t limit : {0, 1000, 5000, 50'000, 900'000}) {
    const std::string why = under_size_limit(limit, [&] {
      PartialCheckpoint partial(scratch.path(), 1);
      Manifest manifest;
      manifest.run = new_uuid();
      write_checkpoint(partial.path(), manifest, std::span(&state.pieces(), 1));
    });
    EXPECT_NE(why.find("shard-00000-of-00001.h5"), std::string::npos) << why;
    EXPECT_NE(why.find("File too large"), std::string::npos) << why;
    EXPECT_TRUE(fs::is_empty(scratch.path()));
  }
}

// A small file system of our own; needs the right to mount.
class SmallDisk : public testing::Test {
 protected:
  void SetUp() override {
    if (::mount("none", scratch_.path().c_str(), "tmpfs", 0, "size=4m") != 0) {
      GTEST_SKIP() << "mounting a tmpfs is not permitted here: " << std::strerror(errno);
    }
    mounted_ = true;
  }
  void TearDown() override {
    if (mounted_) ::umount2(scratch_.path().c_str(), MNT_DETACH);
  }
  Scratch scratch_;
  bool mounted_ = false;
};

TEST_F(SmallDisk, a_full_disk_costs_one_checkpoint_with_a_clear_reason) {
  const fs::path run = scratch_.path() / "run";
  const Lease lease(run);
  Store store(run, lease);
  commit(store, State(7), 1);
  const State large(8, 450);  // 4.4 MB
  try {
    commit(store, large, 2);
    ADD_FAILURE() << "it fitted";
  } catch (const EnvironmentError& error) {
    EXPECT_NE(std::string(error.what()).find("not enough space for a checkpoint"),
              std::string::npos);
  }
  // The disk fills up only after the check of its free space.
  try {
    PartialCheckpoint partial(store.folder(), 2);
    Manifest manifest;
    manifest.run = new_uuid();
    write_checkpoint(partial.path(), manifest, std::span(&large.pieces(), 1));
    ADD_FAILURE() << "it fitted";
  } catch (const EnvironmentError& error) {
    EXPECT_NE(std::string(error.what()).find("No space left on device"), std::string::npos)
        << error.what();
  }
  State loaded;
  EXPECT_EQ(store.load_newest(loaded.pieces())->step, 1);
  EXPECT_TRUE(loaded == State(7));
  commit(store, State(9), 3);
  std::size_t entries = 0;
  for (const auto& entry : fs::directory_iterator(store.folder())) {
    entries += entry.path().filename().string()[0] == '.' ? 100 : 1;
  }
  EXPECT_EQ(entries, 4u);  // two steps, run, latest
}

TEST_F(SmallDisk, a_file_system_that_turned_read_only_is_an_environment_error) {
  const fs::path run = scratch_.path() / "run";
  const Lease lease(run);
  Store store(run, lease);
  commit(store, State(7), 1);
  const std::string path = store.folder();
  const char* folder = path.c_str();
  ASSERT_EQ(::mount(folder, folder, nullptr, MS_BIND, nullptr), 0);
  ASSERT_EQ(::mount(nullptr, folder, nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr), 0);
  EXPECT_THROW(commit(store, State(8), 2), EnvironmentError);
  State loaded;
  EXPECT_EQ(Store(run).load_newest(loaded.pieces())->step, 1);
  ::umount2(folder, MNT_DETACH);
  commit(store, State(8), 2);
}

TEST(Unwritable, a_run_folder_that_cannot_be_made_is_an_environment_error) {
  const Scratch scratch;
  std::ofstream(scratch.path() / "file") << "x";
  EXPECT_THROW(Lease{scratch.path() / "file" / "run"}, EnvironmentError);
}

}  // namespace
}  // namespace trireme::checkpoint
