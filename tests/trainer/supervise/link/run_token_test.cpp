#include "trainer/supervise/link/run_token.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "model/base/error.h"
#include "tests/trainer/telemetry/scratch_folder.h"

namespace trireme {
namespace {

std::string hex(const RunToken::Tag& tag) {
  std::string text;
  for (const unsigned char byte : tag) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

TEST(RunToken, is_drawn_once_for_a_run_and_only_its_owner_may_read_it) {
  const ScratchFolder one, other;
  const RunToken drawn = RunToken::make(one.path());
  EXPECT_EQ(drawn.tag("x"), RunToken::make(one.path()).tag("x"));
  EXPECT_EQ(drawn.tag("x"), RunToken::read(one.path()).tag("x"));
  EXPECT_NE(drawn.tag("x"), RunToken::make(other.path()).tag("x"));
  struct stat facts {};
  ASSERT_EQ(::stat((one / "control-token").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
}

TEST(RunToken, that_others_may_read_or_that_is_none_is_refused) {
  const ScratchFolder folder;
  EXPECT_THROW(RunToken::read(folder.path()), EnvironmentError);
  RunToken::make(folder.path());
  ::chmod((folder / "control-token").c_str(), 0640);
  EXPECT_THROW(RunToken::make(folder.path()), EnvironmentError);
  ::chmod((folder / "control-token").c_str(), 0600);
  std::ofstream(folder / "control-token") << "too short";
  EXPECT_THROW(RunToken::make(folder.path()), EnvironmentError);
}

TEST(RunToken, a_link_is_not_followed) {
  const ScratchFolder one, other;
  RunToken::make(one.path());
  std::filesystem::create_symlink(one / "control-token", other / "control-token");
  EXPECT_THROW(RunToken::make(other.path()), EnvironmentError);
}

// Test case 2 of RFC 4231, whose key is shorter than a token.
TEST(RunToken, tags_are_those_of_the_standard) {
  const std::string key = "Jefe";
  const std::span bytes(reinterpret_cast<const unsigned char*>(key.data()), key.size());
  EXPECT_EQ(hex(RunToken::tag_by(bytes, "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

}  // namespace
}  // namespace trireme
