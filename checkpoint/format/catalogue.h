#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/format/manifest.h"
#include "checkpoint/format/piece.h"
#include "checkpoint/format/shard_report.h"

namespace trireme::checkpoint {

// Throws Error (a caller's bug) unless the pieces of all ranks are well formed, agree on the dtype
// and shape of each tensor, and cover each tensor exactly once.
void check_pieces(std::span<const Piece> pieces);

// Adds digests derived from the tensors' checksums to a manifest; may be null.
using AddDigests = std::function<void(Manifest&)>;

// Fills in the shards, the tensors and their state_crc from the reports `written[i]` on the pieces
// `ranks[i]`, then the digests.
void add_tables(Manifest& manifest, std::span<const std::vector<Piece>> ranks,
                std::span<const WrittenShard> written, const AddDigests& add_digests = nullptr);

// How the tensors of a checkpoint must match those that are requested.
struct Match {
  bool subset = false;        // it may have others: inference reads only the weights
  std::string optional = {};  // prefix of tensors that either side may lack altogether

  static const Match kAll, kSubset;
};
inline const Match Match::kAll{}, Match::kSubset{.subset = true};

// Throws MismatchError with all differences between the stored and the wanted tensors. `where`
// names the checkpoint.
void check_match(const Manifest& manifest, std::span<const Piece> wanted, const Match& match,
                 const std::string& where);

}  // namespace trireme::checkpoint
