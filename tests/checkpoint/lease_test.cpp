#include "checkpoint/lease.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <fstream>

#include "model/base/error.h"
#include "model/base/file.h"
#include "tests/checkpoint/state.h"

namespace trireme::checkpoint {
namespace {

namespace fs = std::filesystem;

std::string refusal(const fs::path& run) {
  try {
    const Lease lease(run);
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "";
}

TEST(Lease, a_second_writer_is_refused_with_the_holders_name) {
  const Scratch scratch;
  {
    const Lease lease(scratch.path(), "4711");
    EXPECT_TRUE(lease.held());
    EXPECT_EQ(lease.taken_from(), "");
    const std::string why = refusal(scratch.path());
    EXPECT_NE(why.find(say("process ", ::getpid(), " on ")), std::string::npos) << why;
    EXPECT_NE(why.find("job 4711"), std::string::npos) << why;
    const pid_t other = ::fork();
    if (other == 0) ::_exit(refusal(scratch.path()) == why ? 0 : 1);
    int status = 1;
    ::waitpid(other, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(lease.held());
  }
  EXPECT_FALSE(fs::exists(scratch.path() / "LEASE.json"));
  EXPECT_EQ(refusal(scratch.path()), "");
}

TEST(Lease, a_killed_holder_is_succeeded) {
  const Scratch scratch;
  const pid_t holder = ::fork();
  if (holder == 0) {
    const Lease lease(scratch.path());
    ::kill(::getpid(), SIGKILL);
  }
  ::waitpid(holder, nullptr, 0);
  ASSERT_TRUE(fs::exists(scratch.path() / "LEASE.json"));
  const Lease lease(scratch.path());
  EXPECT_NE(lease.taken_from().find(say("process ", holder, " on ")), std::string::npos);
}

TEST(Lease, a_holder_on_another_machine_cannot_be_judged_from_here) {
  const Scratch scratch;
  const fs::path path = scratch.path() / "LEASE.json";
  std::string text;
  {
    const Lease lease(scratch.path());
    text = read_text(path);
  }
  auto json = nlohmann::json::parse(text);
  json["host"] = "node17";
  std::ofstream(path) << json.dump();  // the same kernel under another name: a container
  EXPECT_EQ(refusal(scratch.path()), "");
  json["boot"] = "00000000-0000-0000-0000-000000000000";
  std::ofstream(path) << json.dump();
  const std::string why = refusal(scratch.path());
  EXPECT_NE(why.find("on node17"), std::string::npos) << why;
  EXPECT_NE(why.find("remove " + path.string()), std::string::npos) << why;
  EXPECT_TRUE(fs::exists(path));
  std::ofstream(path) << "{\"host\": 3";  // torn by a crash
  EXPECT_EQ(refusal(scratch.path()), "");
}

TEST(Lease, tells_a_reader_who_holds_it) {
  const Scratch scratch;
  const fs::path path = scratch.path() / "LEASE.json";
  EXPECT_EQ(lease_holder(scratch.path()), "");
  {
    const Lease lease(scratch.path(), "4711");
    const std::string words = lease_holder(scratch.path());
    EXPECT_NE(words.find(say("process ", ::getpid(), " on ")), std::string::npos) << words;
    EXPECT_TRUE(lease.held());
  }
  EXPECT_EQ(lease_holder(scratch.path()), "");
  const pid_t holder = ::fork();
  if (holder == 0) {
    const Lease lease(scratch.path());
    ::kill(::getpid(), SIGKILL);
  }
  ::waitpid(holder, nullptr, 0);
  ASSERT_TRUE(fs::exists(path));
  EXPECT_EQ(lease_holder(scratch.path()), "");
  auto json = nlohmann::json::parse(read_text(path));
  json["pid"] = ::getpid();  // its number given to a process that does not hold it
  std::ofstream(path) << json.dump();
  EXPECT_EQ(lease_holder(scratch.path()), "");
}

std::int64_t next_incarnation(const fs::path& run) {
  return Lease(run).incarnation();
}

TEST(Lease, each_holder_counts_one_more_than_the_one_before) {
  const Scratch scratch;
  const fs::path path = scratch.path() / "LEASE.json", count = scratch.path() / "incarnation";
  EXPECT_EQ(next_incarnation(scratch.path()), 1);
  EXPECT_EQ(next_incarnation(scratch.path()), 2);
  const pid_t killed = ::fork();
  if (killed == 0) {
    const Lease lease(scratch.path());
    ::kill(::getpid(), SIGKILL);
  }
  ::waitpid(killed, nullptr, 0);
  const auto left = nlohmann::json::parse(read_text(path));
  EXPECT_EQ(left.at("incarnation"), 3);
  EXPECT_EQ(next_incarnation(scratch.path()), 4);
  replace_text(path, left.dump());  // either of the two files is enough
  fs::remove(count);
  EXPECT_EQ(next_incarnation(scratch.path()), 4);
}

TEST(Lease, a_file_that_does_not_count_counts_as_none) {
  const Scratch scratch;
  const fs::path path = scratch.path() / "LEASE.json", count = scratch.path() / "incarnation";
  nlohmann::json older;
  {
    const Lease lease(scratch.path());
    older = nlohmann::json::parse(read_text(path));
  }
  older.erase("incarnation");
  replace_text(path, older.dump());
  fs::remove(count);
  EXPECT_EQ(next_incarnation(scratch.path()), 1);
  for (const char* text : {"", "x", "-3", "99999999999999999999", "9999999999999"}) {
    replace_text(count, text);
    EXPECT_EQ(next_incarnation(scratch.path()), 1) << text;
  }
}

// Asks for the lease, says how that went, and keeps it until `release` is closed.
[[noreturn]] void race(const fs::path& run, int answer, int release) {
  char said = 'e';
  try {
    const Lease lease(run);
    said = lease.held() ? 'w' : 'l';
    if (::write(answer, &said, 1) != 1) ::_exit(1);
    ::_exit(::read(release, &said, 1) == 0 ? 0 : 1);
  } catch (const CheckpointError&) {
    said = 'r';
  }
  ::_exit(::write(answer, &said, 1) == 1 ? 0 : 1);
}

TEST(Lease, one_of_many_that_start_at_once_gets_it) {
  const Scratch scratch;
  constexpr int kRacers = 6;
  for (int round = 0; round < 20; ++round) {
    std::array<int, 2> answer{};
    std::array<int, 2> release{};
    ASSERT_EQ(::pipe(answer.data()), 0);
    ASSERT_EQ(::pipe(release.data()), 0);
    for (int racer = 0; racer < kRacers; ++racer) {
      if (::fork() != 0) continue;
      ::close(release[1]);
      race(scratch.path(), answer[1], release[0]);
    }
    std::string answers;
    for (char c = 0; answers.size() < kRacers && ::read(answer[0], &c, 1) == 1;) answers += c;
    for (const int end : {answer[0], answer[1], release[0], release[1]}) ::close(end);
    for (int racer = 0; racer < kRacers; ++racer) {
      int status = 1;
      ::wait(&status);
      EXPECT_EQ(status, 0);
    }
    std::sort(answers.begin(), answers.end());
    EXPECT_EQ(answers, "rrrrrw");
  }
}

}  // namespace
}  // namespace trireme::checkpoint
