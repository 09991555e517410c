#include <gtest/gtest.h>

#include <cstring>

#include "checkpoint/commit.h"
#include "checkpoint/diff.h"
#include "checkpoint/load.h"
#include "tests/checkpoint/state.h"

namespace trireme::checkpoint {
namespace {

// A way to share a model: every tensor is cut in `slices` along `dim` where it divides,
// and each slice's elements are dealt as flat runs to `ranges` ranks.
struct Layout {
  int dim;
  int slices;
  int ranges;
};

// The pieces of all ranks of a layout, with memory of their own.
class Ranks {
 public:
  Ranks(const State& state, Layout layout) : pieces_(std::size_t(layout.slices * layout.ranges)) {
    for (const Piece& tensor : state.pieces()) share(tensor, layout);
  }
  std::vector<std::vector<Piece>>& pieces() { return pieces_; }

  // Moves the values of whole tensors into the pieces, or back.
  void copy(const State& state, bool back) {
    for (auto& rank : pieces_) {
      for (Piece& piece : rank) {
        const auto whole =
            std::find_if(state.pieces().begin(), state.pieces().end(),
                         [&](const Piece& candidate) { return candidate.tensor == piece.tensor; });
        const std::size_t element = size_of(piece.dtype);
        for_each_run(piece.box, piece.box, whole->box, [&](auto at, auto in_whole, auto count) {
          std::byte* ours = piece.data + std::size_t(at) * element;
          std::byte* theirs = whole->data + std::size_t(in_whole) * element;
          std::memcpy(back ? theirs : ours, back ? ours : theirs, std::size_t(count) * element);
        });
      }
    }
  }

 private:
  void share(const Piece& tensor, Layout layout) {
    const int dim = std::min(layout.dim, tensor.shape.rank() - 1);
    const bool divides = tensor.shape[dim] % layout.slices == 0;
    for (int slice = 0; slice < (divides ? layout.slices : 1); ++slice) {
      const Box local =
          divides ? placement(tensor.shape, {dim, {slice, layout.slices}}) : tensor.box;
      const std::int64_t count = local.extent.count();
      for (int range = 0; range < layout.ranges; ++range) {
        const std::int64_t first = count * range / layout.ranges;
        const std::int64_t last = count * (range + 1) / layout.ranges;
        for (Box box : boxes_of(first, last - first, local.extent)) {
          for (int d = 0; d < tensor.shape.rank(); ++d) box.from[d] += local.from[d];
          add(std::size_t(slice * layout.ranges + range), tensor, box);
        }
      }
    }
  }
  void add(std::size_t rank, const Piece& tensor, const Box& box) {
    Piece piece{tensor.tensor, tensor.dtype, tensor.shape, box, nullptr};
    memory_.push_back(std::vector<std::byte>(piece.bytes()));
    piece.data = memory_.back().data();
    pieces_[rank].push_back(piece);
  }

  std::vector<std::vector<Piece>> pieces_;
  std::vector<std::vector<std::byte>> memory_;
};

const std::vector<Layout>& layouts() {
  static const std::vector<Layout> kLayouts{{0, 1, 1}, {0, 1, 3}, {1, 2, 1}, {1, 4, 2},
                                            {0, 3, 2}, {1, 8, 1}, {2, 5, 3}};
  return kLayouts;
}

std::filesystem::path write(const std::filesystem::path& folder, const State& state, Layout layout,
                            std::int64_t step) {
  Ranks ranks(state, layout);
  ranks.copy(state, false);
  Manifest manifest;
  manifest.run = new_uuid();
  manifest.step = step;
  manifest.written = now_text();
  for (auto* part : {&manifest.data, &manifest.scalars, &manifest.digests, &manifest.layout,
                     &manifest.versions}) {
    *part = nlohmann::json::object();
  }
  PartialCheckpoint partial(folder, step);
  write_checkpoint(partial.path(), manifest, ranks.pieces());
  publish(partial.path(), step);
  return folder / step_name(step);
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
  Snapshot twice = state.snapshot(1);
  twice.pieces.push_back(twice.pieces[0]);
  EXPECT_THROW(store.commit(twice), Error);
  Snapshot part = state.snapshot(1);
  part.pieces[0].box.extent[0] -= 1;
  EXPECT_THROW(store.commit(part), Error);
  EXPECT_TRUE(store.list().empty());
}

}  // namespace
}  // namespace trireme::checkpoint
