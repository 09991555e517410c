#include "checkpoint/store/lease.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <fstream>
#include <thread>

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
    const Lease lease(scratch.path(), Lease::kUsualTermS, {.id = "4711"});
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

// LEASE.json as a process on another machine has left it, or still renews it.
class RemoteHolder {
 public:
  explicit RemoteHolder(const fs::path& run, double term_s = 0.2) : path_(run / "LEASE.json") {
    {
      const Lease lease(run, term_s, {.id = "4711", .restarts = 1});
      holder_ = nlohmann::json::parse(read_text(path_));
    }
    holder_["host"] = "node17";
    holder_["boot"] = "00000000-0000-0000-0000-000000000000";
    std::ofstream(path_) << holder_.dump();
  }
  void renew() const { ::utimensat(AT_FDCWD, path_.c_str(), nullptr, 0); }

 private:
  fs::path path_;
  nlohmann::json holder_;
};

TEST(Lease, a_holder_on_another_machine_that_renews_its_lease_lives) {
  const Scratch scratch;
  const RemoteHolder holder(scratch.path());
  std::atomic<bool> ends = false;
  std::thread renews([&] {
    while (!ends) holder.renew();
  });
  const std::string why = refusal(scratch.path());
  ends = true;
  renews.join();
  EXPECT_NE(why.find("on node17, job 4711"), std::string::npos) << why;
  EXPECT_FALSE(lease_holder(scratch.path()).empty());
}

TEST(Lease, a_holder_on_another_machine_that_does_not_renew_its_lease_is_dead) {
  const Scratch scratch;
  const RemoteHolder holder(scratch.path());
  const Lease lease(scratch.path());
  EXPECT_NE(lease.taken_from().find("on node17"), std::string::npos) << lease.taken_from();
  EXPECT_EQ(lease.incarnation(), 2);
  EXPECT_TRUE(lease.held());
}

// With a term that no test waits for.
TEST(Lease, a_requeued_job_proves_its_earlier_self_dead) {
  for (const Lease::Job& job : {Lease::Job{"4711", 2}, Lease::Job{"4711", 7}}) {
    const Scratch scratch;
    const RemoteHolder holder(scratch.path(), /*term_s=*/86'000);
    EXPECT_TRUE(Lease(scratch.path(), Lease::kUsualTermS, job).held());
  }
}

TEST(Lease, a_job_of_another_name_or_count_proves_nothing) {
  for (const Lease::Job& job : {Lease::Job{"4711", 1}, Lease::Job{"4712", 2}, Lease::Job{}}) {
    const Scratch scratch;
    const RemoteHolder holder(scratch.path(), /*term_s=*/86'000);
    std::atomic<bool> ends = false;
    std::thread renews([&] {
      while (!ends) holder.renew();
    });
    EXPECT_THROW(Lease(scratch.path(), Lease::kUsualTermS, job), CheckpointError) << job.id;
    ends = true;
    renews.join();
  }
}

TEST(Lease, of_another_name_for_this_machine_or_torn_is_taken) {
  const Scratch scratch;
  const fs::path path = scratch.path() / "LEASE.json";
  nlohmann::json holder;
  {
    const Lease lease(scratch.path());
    holder = nlohmann::json::parse(read_text(path));
  }
  holder["host"] = "node17";  // the same kernel: a container
  std::ofstream(path) << holder.dump();
  EXPECT_EQ(refusal(scratch.path()), "");
  std::ofstream(path) << "{\"host\": 3";  // torn by a crash
  EXPECT_EQ(refusal(scratch.path()), "");
}

TEST(Lease, is_renewed_while_it_is_held) {
  const Scratch scratch;
  const fs::path path = scratch.path() / "LEASE.json";
  const Lease lease(scratch.path(), /*term_s=*/0.1);
  for (int renewal = 0; renewal < 3; ++renewal) {
    const auto before = fs::last_write_time(path);
    while (fs::last_write_time(path) == before) std::this_thread::yield();
  }
}

TEST(Lease, the_next_incarnation_fences_those_of_the_one_before) {
  const Scratch scratch;
  Lease supervisor(scratch.path());
  const std::string first = supervisor.token();
  const auto early = Lease::join(scratch.path(), first);
  EXPECT_TRUE(early->held());
  EXPECT_EQ(early->incarnation(), 1);
  supervisor.begin_next();
  EXPECT_FALSE(early->held());
  EXPECT_THROW(Lease::join(scratch.path(), first), CheckpointError);
  const auto late = Lease::join(scratch.path(), supervisor.token());
  EXPECT_TRUE(late->held());
  EXPECT_EQ(late->incarnation(), 2);
  EXPECT_NE(refusal(scratch.path()), "");
}

TEST(Lease, one_that_was_taken_by_another_cannot_be_continued) {
  const Scratch scratch;
  Lease supervisor(scratch.path());
  fs::remove(scratch.path() / "LEASE.json");
  const Lease other(scratch.path());
  EXPECT_FALSE(supervisor.held());
  EXPECT_THROW(supervisor.begin_next(), CheckpointError);
  EXPECT_THROW(Lease::join(scratch.path(), supervisor.token()), CheckpointError);
  EXPECT_TRUE(other.held());
}

// Starts a supervisor that is killed once `joined` has told that it has joined its lease, and a
// process of its own that has. Returns that, which lives until it is killed.
pid_t orphan_of_a_killed_supervisor(const fs::path& run) {
  std::array<int, 2> told{};
  if (::pipe(told.data()) != 0) return -1;
  const pid_t supervisor = ::fork();
  if (supervisor == 0) {
    const Lease lease(run);
    const pid_t rank = ::fork();
    if (rank == 0) {
      const auto joined = Lease::join(run, lease.token());
      const pid_t own = ::getpid();
      if (::write(told[1], &own, sizeof own) != sizeof own) ::_exit(1);
      for (;;) ::pause();
    }
    for (;;) ::pause();
  }
  pid_t rank = -1;
  if (::read(told[0], &rank, sizeof rank) != sizeof rank) rank = -1;
  ::kill(supervisor, SIGKILL);
  ::waitpid(supervisor, nullptr, 0);
  for (const int end : told) ::close(end);
  return rank;
}

TEST(Lease, waits_for_the_ranks_of_a_killed_supervisor_to_end) {
  const Scratch scratch;
  const pid_t rank = orphan_of_a_killed_supervisor(scratch.path());
  ASSERT_GT(rank, 0);
  EXPECT_THROW(Lease(scratch.path(), /*term_s=*/0.1).held(), CheckpointError);  // it does not end
  std::thread ends([&] { ::kill(rank, SIGKILL); });
  EXPECT_TRUE(Lease(scratch.path()).held());
  ends.join();
}

TEST(Lease, a_link_is_not_followed) {
  const Scratch scratch;
  const fs::path target = scratch.path() / "precious";
  std::ofstream(target) << "precious";
  fs::create_symlink(target, scratch.path() / "LEASE.json");
  EXPECT_THROW(Lease{scratch.path()}, EnvironmentError);
  EXPECT_EQ(lease_holder(scratch.path()), "");
  EXPECT_EQ(read_text(target), "precious");
}

TEST(Lease, tells_a_reader_who_holds_it) {
  const Scratch scratch;
  const fs::path path = scratch.path() / "LEASE.json";
  EXPECT_EQ(lease_holder(scratch.path()), "");
  {
    const Lease lease(scratch.path(), Lease::kUsualTermS, {.id = "4711"});
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
  EXPECT_EQ(next_incarnation(scratch.path()), 1);  // as if torn
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
