#include "checkpoint/format/catalogue.h"

#include <algorithm>
#include <map>

#include "checkpoint/format/boxes.h"
#include "checkpoint/format/names.h"

namespace trireme::checkpoint {
namespace {

bool inside(const Box& box, Shape shape) {
  if (box.from.rank() != shape.rank() || box.extent.rank() != shape.rank()) return false;
  for (int dim = 0; dim < shape.rank(); ++dim) {
    if (box.from[dim] < 0 || box.extent[dim] < 1) return false;
    if (box.from[dim] + box.extent[dim] > shape[dim]) return false;
  }
  return shape.rank() > 0;
}

// Formats a list: its first elements and its length.
class Complaints {
 public:
  explicit Complaints(const char* title) : title_(title) {}
  void add(const std::string& item) {
    constexpr int kShown = 4;
    if (count_++ < kShown) shown_ += say(count_ > 1 ? ", " : "", item);
  }
  std::string text() const {
    if (count_ == 0) return "";
    return say("\n  ", title_, " (", count_, "): ", shown_, count_ > 4 ? ", ..." : "");
  }

 private:
  const char* title_;
  int count_ = 0;
  std::string shown_;
};

}  // namespace

void check_pieces(std::span<const Piece> pieces) {
  struct Known {
    DType dtype;
    Shape shape;
    std::vector<Box> boxes;
  };
  std::map<std::string, Known> tensors;
  for (const Piece& piece : pieces) {
    require(is_tensor_name(piece.tensor), "\"", piece.tensor, "\" cannot name a tensor");
    require(inside(piece.box, piece.shape), piece.tensor, ": the piece from ", piece.box.from,
            " of extent ", piece.box.extent, " is not in the shape ", piece.shape);
    Known& known =
        tensors.try_emplace(piece.tensor, Known{piece.dtype, piece.shape, {}}).first->second;
    require(known.dtype == piece.dtype && known.shape == piece.shape, piece.tensor,
            ": its pieces disagree about its dtype or shape");
    known.boxes.push_back(piece.box);
  }
  require(!tensors.empty(), "a snapshot without tensors");
  for (const auto& [name, known] : tensors) {
    require(tile_exactly(known.boxes, known.shape), name, ": the pieces do not cover its shape ",
            known.shape, " exactly once");
    for (std::size_t at = name.find('/'); at != std::string::npos; at = name.find('/', at + 1)) {
      require(!tensors.contains(name.substr(0, at)), name, ": its group is also a tensor");
    }
  }
}

void add_tables(Manifest& manifest, std::span<const std::vector<Piece>> ranks,
                std::span<const WrittenShard> written, const AddDigests& add_digests) {
  std::map<std::string, StoredTensor> tensors;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    manifest.shards.push_back(written[rank].file);
    for (std::size_t i = 0; i < ranks[rank].size(); ++i) {
      const Piece& piece = ranks[rank][i];
      const WrittenShard::Part& part = written[rank].parts[i];
      StoredTensor& tensor = tensors[piece.tensor];
      tensor.name = piece.tensor;
      tensor.dtype = piece.dtype;
      tensor.shape = piece.shape;
      tensor.crc32c ^= part.digest.share;
      tensor.rectangles.push_back(
          {rank, piece.box, part.offset, piece.bytes(), part.digest.crc32c, part.blocks});
    }
  }
  for (auto& [name, tensor] : tensors) {
    tensor.crc32c = crc_from(tensor.crc32c, tensor.bytes());  // previously the remainder
    manifest.tensors.push_back(std::move(tensor));
  }
  manifest.state_crc = state_crc_of(manifest.tensors);
  if (add_digests) add_digests(manifest);
}

void check_match(const Manifest& manifest, std::span<const Piece> wanted, const Match& match,
                 const std::string& where) {
  std::map<std::string, const Piece*> asked;
  for (const Piece& piece : wanted) asked.emplace(piece.tensor, &piece);
  const auto is_optional = [&](const std::string& name) {
    return !match.optional.empty() && name.starts_with(match.optional);
  };
  const bool wants_optional = std::any_of(
      wanted.begin(), wanted.end(), [&](const Piece& piece) { return is_optional(piece.tensor); });
  const bool has_optional =
      std::any_of(manifest.tensors.begin(), manifest.tensors.end(),
                  [&](const StoredTensor& stored) { return is_optional(stored.name); });
  Complaints missing("missing tensors");
  Complaints extra("unexpected tensors");
  Complaints shapes("tensors with a different shape");
  Complaints dtypes("tensors with a different dtype");
  for (const auto& [name, piece] : asked) {
    require(inside(piece->box, piece->shape), name, ": a wanted piece is not in the shape ",
            piece->shape);
    const StoredTensor* stored = manifest.find(name);
    if (!stored) {
      if (has_optional || !is_optional(name)) missing.add(name);
    } else if (stored->shape != piece->shape) {
      shapes.add(say(name, " ", stored->shape, " there, ", piece->shape, " here"));
    } else if (stored->dtype != piece->dtype) {
      dtypes.add(
          say(name, " ", name_of(stored->dtype), " there, ", name_of(piece->dtype), " here"));
    }
  }
  for (const StoredTensor& stored : manifest.tensors) {
    if (match.subset || asked.contains(stored.name)) continue;
    if (wants_optional || !is_optional(stored.name)) extra.add(stored.name);
  }
  const std::string all = missing.text() + extra.text() + shapes.text() + dtypes.text();
  if (!all.empty()) {
    throw MismatchError(say(where, " has the state of a different model or optimizer:", all));
  }
}

}  // namespace trireme::checkpoint
