#include <gtest/gtest.h>

#include <fstream>
#include <optional>

#include "tests/checkpoint/layouts.h"
#include "tests/parallel/mpi_world.h"

namespace trireme::checkpoint {
namespace {

using tests::all_ranks;
using tests::world;

// All ranks of the world read one checkpoint, of columns what others need as well.
class StoreOfRanks : public testing::Test {
 protected:
  void SetUp() override {
    path_ = team().led([&] {
      scratch_.emplace();
      lease_.emplace(scratch_->path());
      return scratch_->path().string();
    });
    store_.emplace(path_, lease_ ? &*lease_ : nullptr, team());
    for (const std::int64_t step : {1, 2}) {
      state_.fill(static_cast<unsigned>(step));
      Ranks rows(state_, {0, 1, all_->size()});
      rows.copy(state_, false);
      Saver(*store_, own(rows)).save(state_.snapshot(step));
    }
  }
  Team team() const { return Team(*all_, &world()); }
  std::vector<Piece>& own(Ranks& ranks) const {
    return ranks.pieces()[static_cast<std::size_t>(all_->rank())];
  }
  // Whether the pieces of this rank hold what the state of `step` has there.
  bool holds(std::span<const Piece> loaded, std::int64_t step) {
    state_.fill(static_cast<unsigned>(step));
    Ranks expected(state_, {1, all_->size(), 1});
    expected.copy(state_, false);
    const std::vector<Piece>& right = own(expected);
    bool same = right.size() == loaded.size();
    for (std::size_t i = 0; same && i < right.size(); ++i) {
      same = std::memcmp(right[i].data, loaded[i].data, right[i].bytes()) == 0;
    }
    return same;
  }

  const std::unique_ptr<Communicator> all_ = all_ranks();
  std::optional<Scratch> scratch_;
  std::optional<Lease> lease_;
  std::filesystem::path path_;
  State state_{1, /*scale=*/300};
  std::optional<Store> store_;
};

TEST_F(StoreOfRanks, load_together_and_fall_back_together) {
  State memory(0, 300);
  Ranks columns(memory, {1, all_->size(), 1});
  auto found = store_->load_newest(own(columns));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->step, 2);
  EXPECT_TRUE(holds(own(columns), 2));

  team().led([&] {
    const Rectangle& stored = found->manifest.find("model/embed.weight")->rectangles.back();
    std::fstream file(found->folder / found->manifest.shards[stored.shard].name,
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(stored.offset + stored.bytes / 2));
    file.put('\xff');
  });
  found = store_->load_newest(own(columns));
  EXPECT_EQ(found->step, 1);
  ASSERT_EQ(found->rejected.size(), 1u);
  EXPECT_NE(found->rejected.front().find("damaged: tensor model/embed.weight"), std::string::npos)
      << found->rejected.front();
  EXPECT_TRUE(holds(own(columns), 1));
}

}  // namespace
}  // namespace trireme::checkpoint
