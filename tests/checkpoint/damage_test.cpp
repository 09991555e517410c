#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "checkpoint/load.h"
#include "model/base/file.h"
#include "tests/checkpoint/state.h"

namespace trireme::checkpoint {
namespace {

namespace fs = std::filesystem;

class Damage : public testing::Test {
 protected:
  Damage() {
    const Lease lease(scratch_.path());
    Store store(scratch_.path(), lease);
    store.commit(before_.snapshot(1));
    store.commit(state_.snapshot(2));
    folder_ = store.folder() / "step-00000002";
  }
  // The loader takes the older one, or the damage is where it does not look.
  void expect_never_wrong() {
    State loaded;
    const auto found = Store(scratch_.path()).load_newest(loaded.pieces());
    ASSERT_TRUE(found.has_value());
    ASSERT_TRUE(loaded == (found->step == 2 ? state_ : before_));
    ASSERT_EQ(found->rejected.size(), found->step == 2 ? 0u : 1u);
    fell_back_ += found->step == 1 ? 1 : 0;
  }
  std::vector<std::string> files() const {
    return {"manifest.json", "state.h5", "shard-00000-of-00001.h5"};
  }

  Scratch scratch_;
  State before_{21};
  State state_{22};
  fs::path folder_;
  int fell_back_ = 0;
};

TEST_F(Damage, of_any_bit_is_found_and_never_loaded) {
  std::mt19937 random(3);
  int tried = 0;
  for (const std::string& name : files()) {
    const std::string good = read_text(folder_ / name);
    File file = File::open_write(folder_ / name);
    for (int round = 0; round < 250; ++round, ++tried) {
      std::string bad = good;
      bad[random() % bad.size()] ^= char(1 << random() % 8);
      std::ofstream(folder_ / name, std::ios::binary) << bad;
      const auto problems = problems_of(folder_);
      ASSERT_FALSE(problems.empty());
      ASSERT_NE(problems[0].find(name), std::string::npos) << problems[0];
      if (round % 8 == 0) expect_never_wrong();
    }
    std::ofstream(folder_ / name, std::ios::binary) << good;
    ASSERT_TRUE(problems_of(folder_).empty());
  }
  EXPECT_EQ(tried, 750);
  EXPECT_GT(fell_back_, 31);  // all of the manifest's
}

TEST_F(Damage, by_truncation_deletion_and_strangers_is_found) {
  for (const std::string& name : files()) {
    const std::string good = read_text(folder_ / name);
    for (const std::size_t size :
         {std::size_t{0}, std::size_t{1}, good.size() / 2, good.size() - 1, good.size() + 1}) {
      fs::resize_file(folder_ / name, size);
      EXPECT_FALSE(problems_of(folder_).empty()) << name << " " << size;
      expect_never_wrong();
      std::ofstream(folder_ / name, std::ios::binary) << good;
    }
    fs::remove(folder_ / name);
    EXPECT_FALSE(problems_of(folder_).empty()) << name;
    expect_never_wrong();
    fs::create_directory(folder_ / name);
    EXPECT_FALSE(problems_of(folder_).empty()) << name;
    expect_never_wrong();
    fs::remove(folder_ / name);
    std::ofstream(folder_ / name, std::ios::binary) << good;
  }
  std::ofstream(folder_ / "notes.txt") << "x";
  ASSERT_EQ(problems_of(folder_).size(), 1u);
  EXPECT_NE(problems_of(folder_)[0].find("notes.txt: not part of"), std::string::npos);
}

}  // namespace
}  // namespace trireme::checkpoint
