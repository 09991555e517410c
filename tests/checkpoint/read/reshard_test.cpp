#include <gtest/gtest.h>

#include <cstring>

#include "checkpoint/read/load.h"
#include "checkpoint/store/diff.h"
#include "tests/checkpoint/layouts.h"

namespace trireme::checkpoint {
namespace {

const std::vector<Layout>& layouts() {
  static const std::vector<Layout> kLayouts{{0, 1, 1}, {0, 1, 3}, {1, 2, 1}, {1, 4, 2},
                                            {0, 3, 2}, {1, 8, 1}, {2, 5, 3}};
  return kLayouts;
}

TEST(Reshard, every_layout_reads_what_every_other_wrote) {
  const Scratch scratch;
  const State state(11);
  std::uint32_t state_crc = 0;
  for (std::size_t from = 0; from < layouts().size(); ++from) {
    const auto folder = write(scratch.path(), state, layouts()[from], std::int64_t(from));
    EXPECT_EQ(problems_of(folder, /*threads=*/3), std::vector<std::string>());
    const Manifest manifest = read_manifest(folder);
    if (from == 0) state_crc = manifest.state_crc;
    EXPECT_EQ(manifest.state_crc, state_crc);
    for (const Layout& to : layouts()) {
      State loaded;
      Ranks ranks(loaded, to);
      for (const auto& rank : ranks.pieces()) {
        // A rank of its own reads only its part.
        load_pieces(folder, manifest, rank, Match::kSubset);
      }
      ranks.copy(loaded, true);
      EXPECT_TRUE(loaded == state) << "layouts " << from << " to " << to.slices << "x" << to.ranges;
    }
  }
}

TEST(Reshard, checkpoints_of_two_layouts_compare_as_identical_until_a_value_differs) {
  const Scratch scratch;
  State state(12);
  const auto a = write(scratch.path() / "", state, layouts()[3], 1);
  const Scratch other;
  const auto b = write(other.path(), state, layouts()[6], 1);
  EXPECT_TRUE(compare(a, b).empty());
  const Piece& piece = state.pieces()[0];
  const float before = 1.5f;
  const float after = 1.75f;
  std::memcpy(piece.data + 400, &before, 4);
  const Scratch third;
  const auto c = write(third.path(), state, layouts()[1], 1);
  std::memcpy(piece.data + 400, &after, 4);
  const Scratch fourth;
  const auto d = write(fourth.path(), state, layouts()[4], 2);
  const auto differences = compare(c, d);
  ASSERT_EQ(differences.size(), 2u);
  EXPECT_EQ(differences[0].item, "step");
  EXPECT_EQ(differences[1].item, "model/embed.weight");
  EXPECT_EQ(differences[1].detail, "1 of 2424 elements differ, by at most 0.25");
}

TEST(Reshard, pieces_that_do_not_cover_a_tensor_exactly_are_a_bug_and_not_written) {
  const Scratch scratch;
  const Lease lease(scratch.path());
  Store store(scratch.path(), lease);
  const State state(13);
  std::vector<Piece> twice = state.pieces();
  twice.push_back(twice[0]);
  EXPECT_THROW(Saver(store, twice), Error);
  std::vector<Piece> part = state.pieces();
  part[0].box.extent[0] -= 1;
  EXPECT_THROW(Saver(store, part), Error);
  EXPECT_TRUE(store.list().empty());
}

}  // namespace
}  // namespace trireme::checkpoint
