#pragma once
#include <algorithm>
#include <cstring>

#include "checkpoint/store/commit.h"
#include "tests/checkpoint/boxes_of.h"
#include "tests/checkpoint/state.h"

namespace trireme::checkpoint {

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

inline std::filesystem::path write(const std::filesystem::path& folder, const State& state,
                                   Layout layout, std::int64_t step) {
  Ranks ranks(state, layout);
  ranks.copy(state, false);
  Manifest manifest;
  manifest.run = new_uuid();
  manifest.step = step;
  manifest.written = now_text();
  PartialCheckpoint partial(folder, step);
  write_checkpoint(partial.path(), manifest, ranks.pieces());
  publish(partial.path(), step);
  return folder / step_name(step);
}

}  // namespace trireme::checkpoint
