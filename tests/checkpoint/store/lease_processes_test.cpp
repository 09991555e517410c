// Processes that want one run folder, and are killed, frozen and robbed at random moments: what
// lease_model_test.cpp says of all orders, of some hundred that happen.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <random>
#include <sstream>
#include <vector>

#include "checkpoint/store/lease.h"
#include "model/base/error.h"
#include "model/base/file.h"
#include "tests/checkpoint/state.h"

namespace trireme::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr int kSteps = 6, kRounds = 200;

struct Told {
  std::int64_t incarnation = 0;
  int step = 0;
};

std::vector<Told> told_in(const fs::path& file) {
  std::vector<Told> told;
  if (!fs::exists(file)) return told;
  std::istringstream lines(read_text(file));
  for (Told one; lines >> one.incarnation >> one.step;) told.push_back(one);
  return told;
}

// As a run does: a file of its own in the place of the one before, and no step without the lease.
void train(const fs::path& run) {
  const Lease lease(run, /*term_s=*/5);
  const fs::path metrics = run / "metrics";
  const std::vector<Told> before = told_in(metrics);
  int step = before.empty() ? 0 : before.back().step;
  replace_text(metrics, fs::exists(metrics) ? read_text(metrics) : "");
  File file = File::open_append(metrics);
  while (step < kSteps && lease.held()) {
    file.write_all(say(lease.incarnation(), " ", ++step, "\n"));
  }
}

pid_t started(const fs::path& run) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  try {
    train(run);
    ::_exit(0);
  } catch (const CheckpointError&) {
    ::_exit(4);
  }
}

class LeaseStruggle : public testing::Test {
 protected:
  void inject_fault(const fs::path& run, const std::vector<pid_t>& claimants) {
    const pid_t one = claimants[random_() % claimants.size()];
    switch (random_() % 4) {
      case 0:
        ::kill(one, SIGKILL);
        break;
      case 1:
        ::kill(one, SIGSTOP);
        break;
      case 2:
        ::kill(one, SIGCONT);
        break;
      default: {
        std::error_code gone;
        fs::remove(run / "LEASE.json", gone);
      }
    }
  }

  std::mt19937_64 random_{20};
};

TEST_F(LeaseStruggle, tells_each_step_once_and_comes_to_an_end) {
  int killed = 0, refused = 0;
  for (int round = 0; round < kRounds; ++round) {
    const Scratch scratch;
    const fs::path run = scratch.path() / "run";
    make_folders(run);
    std::vector<pid_t> claimants;
    for (std::size_t count = 2 + random_() % 2; claimants.size() < count;) {
      claimants.push_back(started(run));
      ::usleep(static_cast<useconds_t>(random_() % 3000));
      if (random_() % 2 == 0) inject_fault(run, claimants);
    }
    for (const pid_t claimant : claimants) ::kill(claimant, SIGCONT);
    for (const pid_t claimant : claimants) {
      int status = 0;
      ASSERT_EQ(::waitpid(claimant, &status, 0), claimant);
      killed += WIFSIGNALED(status) ? 1 : 0;
      refused += WIFEXITED(status) && WEXITSTATUS(status) == 4 ? 1 : 0;
    }
    ASSERT_NO_THROW(train(run)) << "round " << round;
    const std::vector<Told> told = told_in(run / "metrics");
    ASSERT_EQ(told.size(), static_cast<std::size_t>(kSteps)) << "round " << round;
    for (std::size_t i = 0; i < told.size(); ++i) {
      ASSERT_EQ(told[i].step, static_cast<int>(i) + 1) << "round " << round;
      if (i > 0) {
        ASSERT_GE(told[i].incarnation, told[i - 1].incarnation) << "round " << round;
      }
    }
  }
  EXPECT_GT(killed, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace trireme::checkpoint
