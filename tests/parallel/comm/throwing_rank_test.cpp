#include <gtest/gtest.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdlib>
#include <string>

namespace {

// mpirun's exit code for two ranks of which one throws.
int code_of(const std::string& how) {
  const auto start = std::chrono::steady_clock::now();
  const std::string command = std::string(TRIREME_MPIRUN) + " -n 2 " + TRIREME_THROWING_RANK + " " +
                              how + " > /dev/null 2>&1";
  const int status = std::system(command.c_str());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  EXPECT_TRUE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

TEST(World, ends_all_ranks_with_the_code_of_the_one_that_threw) {
  EXPECT_EQ(code_of("inside"), 3) << "a data error";
}

TEST(World, left_by_an_exception_ends_all_ranks) {
  EXPECT_EQ(code_of("outside"), 1);
}

// mpirun ends a rank that waits in shared memory like any other.
TEST(World, whose_rank_is_killed_ends_those_that_wait_in_shared_memory) {
  EXPECT_EQ(code_of("killed"), 128 + 9);
}

TEST(World, left_by_an_exception_gives_up_what_was_started_beside) {
  EXPECT_EQ(code_of("beside"), 1);
}

}  // namespace
