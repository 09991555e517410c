#include "trainer/supervise/node_agent/started_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "model/base/error.h"
#include "model/base/file.h"
#include "model/base/host_name.h"
#include "trainer/supervise/node_agent/own_processes.h"

namespace trireme {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

int code_of(StartedProcess& process) {
  for (int tries = 0; tries < 2000; ++tries) {
    if (const auto code = process.ended()) return *code;
    ::usleep(5000);
  }
  return -1;
}

TEST(started_process, its_exit_code_is_told) {
  StartedProcess done({"sh", "-c", "exit 7"}, {});
  EXPECT_EQ(code_of(done), 7);
  StartedProcess killed({"sh", "-c", "kill -9 $$"}, {});
  EXPECT_EQ(code_of(killed), 128 + SIGKILL);
}

TEST(started_process, has_the_variables_beside_the_environment) {
  ::setenv("TRIREME_TEST_OLD", "old", 1);
  StartedProcess shell({"sh", "-c", "test \"$NEW$TRIREME_TEST_OLD$PATH\" = \"newold$PATH\""},
                       {.variables = {"NEW=new"}});
  EXPECT_EQ(code_of(shell), 0);
}

TEST(started_process, a_missing_launcher_is_named) {
  try {
    StartedProcess none({"/no/such/mpirun"}, {});
    FAIL();
  } catch (const EnvironmentError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("/no/such/mpirun"));
  }
}

TEST(started_process, its_words_are_added_to_the_output) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "output";
  std::filesystem::remove(path);
  for (int times = 0; times < 2; ++times) {
    StartedProcess shell({"sh", "-c", "echo out; echo err >&2"}, {.output = path});
    EXPECT_EQ(code_of(shell), 0);
  }
  EXPECT_EQ(read_text(path, 100), "out\nerr\nout\nerr\n");
  std::filesystem::remove(path);
  EXPECT_THROW(StartedProcess({"true"}, {.output = "/no/such/folder/output"}), EnvironmentError);
}

TEST(started_process, ends_with_the_object_only_where_it_is_to) {
  pid_t ends = 0, stays = 0;
  {
    const StartedProcess one({"sleep", "60"}, {.ends_with_us = true}), other({"sleep", "60"}, {});
    ends = one.id();
    stays = other.id();
  }
  EXPECT_NE(::kill(ends, 0), 0);
  EXPECT_EQ(::kill(stays, SIGKILL), 0);
}

// As a supervisor that is killed leaves srun, when nobody is left who would end that.
TEST(started_process, is_killed_where_it_would_outlive_us_for_too_long) {
  const std::string mark = "TRIREME_TEST_MARK=outlives" + std::to_string(::getpid());
  const pid_t supervisor = ::fork();
  if (supervisor == 0) {
    const StartedProcess patient({"sh", "-c", "trap '' TERM HUP INT; sleep 60; sleep 60"},
                                 {.variables = {mark}, .outlives_us_s = 1});
    ::pause();
    ::_exit(1);
  }
  const auto until_there_are = [&mark](std::size_t count) {
    for (int tries = 0; processes_with(mark).size() != count && tries < 2000; ++tries) {
      ::usleep(5000);
    }
    return processes_with(mark).size() == count;
  };
  EXPECT_TRUE(until_there_are(2));  // the shell and what it runs
  ::kill(supervisor, SIGKILL);
  ::waitpid(supervisor, nullptr, 0);
  EXPECT_TRUE(until_there_are(0));
}

TEST(started_process, with_a_guard_tells_its_code_and_holds_none_of_our_files) {
  StartedProcess done({"sh", "-c", "exit 7"}, {.outlives_us_s = 60});
  EXPECT_EQ(code_of(done), 7);
  EXPECT_THROW(StartedProcess({"/no/such/srun"}, {.outlives_us_s = 60}), EnvironmentError);
  const int file = ::memfd_create("lease", 0);
  StartedProcess sleeper({"sleep", "60"}, {.outlives_us_s = 60});
  const std::string folder = "/proc/" + std::to_string(sleeper.id()) + "/fd";
  for (int tries = 0; !std::filesystem::is_empty(folder) && tries < 2000; ++tries) ::usleep(5000);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  sleeper.signal_group(SIGKILL);
  EXPECT_EQ(code_of(sleeper), 128 + SIGKILL);
  ::close(file);
}

TEST(started_process, is_not_hit_by_what_the_terminal_sends) {
  const StartedProcess sleeper({"sleep", "60"}, {.ends_with_us = true});
  EXPECT_NE(::getpgid(sleeper.id()), ::getpgrp());
}

// Its grandchildren too, whatever group or session they are in.
TEST(own_processes, all_that_carry_the_mark_are_ended) {
  const std::string mark = "TRIREME_TEST_MARK=" + std::to_string(::getpid());
  StartedProcess shell({"sh", "-c", "setsid sleep 60 & sleep 60 & sleep 60"},
                       {.variables = {mark}});
  for (int tries = 0; processes_with(mark).size() < 4 && tries < 1000; ++tries) ::usleep(5000);
  EXPECT_THAT(processes_with(mark), SizeIs(4));
  EXPECT_THAT(processes_with(mark + "0"), IsEmpty());
  EXPECT_THAT(end_processes(mark), IsEmpty());
  EXPECT_THAT(processes_with(mark), IsEmpty());
  EXPECT_EQ(code_of(shell), 128 + SIGKILL);
}

// Of an mpirun that is killed after its supervisor was, so that neither cleans up.
TEST(own_processes, sessions_are_removed_once_their_mpirun_is_gone) {
  namespace fs = std::filesystem;
  const fs::path temporary = fs::path(testing::TempDir()) / say("sessions-", ::getpid());
  const char* const before = std::getenv("TMPDIR");
  const std::string old = before ? before : "";
  ::setenv("TMPDIR", temporary.c_str(), 1);
  const fs::path all = temporary / say("ompi.", own_host_name(), ".", ::getuid());
  const pid_t killed = ::fork();
  if (killed == 0) ::_exit(0);
  siginfo_t exited{};
  ::waitid(P_PID, static_cast<id_t>(killed), &exited, WEXITED | WNOWAIT);  // it stays a zombie
  for (const pid_t mpirun : {killed, ::getpid()}) {
    fs::create_directories(all / say("pid.", mpirun) / "0");
  }
  EXPECT_EQ(sweep_sessions(), 1);
  EXPECT_TRUE(fs::exists(all / say("pid.", ::getpid()) / "0"));
  EXPECT_FALSE(fs::exists(all / say("pid.", killed)));
  fs::remove_all(all / say("pid.", ::getpid()));
  EXPECT_EQ(sweep_sessions(), 0);
  EXPECT_FALSE(fs::exists(all));
  ::waitpid(killed, nullptr, 0);
  fs::remove_all(temporary);
  before ? ::setenv("TMPDIR", old.c_str(), 1) : ::unsetenv("TMPDIR");
}

}  // namespace
}  // namespace trireme
