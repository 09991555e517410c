#pragma once
#include <span>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/piece.h"
#include "checkpoint/shard_writer.h"

namespace trireme::checkpoint {

// Throws Error (a bug of the caller) unless the pieces, of all ranks together, are
// well formed, agree on each tensor's dtype and shape, and cover it exactly once.
void check_pieces(std::span<const Piece> pieces);

// The table of tensors by ascending name. `written[i]` reports `ranks[i]`'s pieces.
std::vector<StoredTensor> catalogue(std::span<const std::vector<Piece>> ranks,
                                    std::span<const WrittenShard> written);

// Whether the checkpoint may hold tensors that were not asked for (generate wants
// the weights alone; a resumed run wants everything).
enum class Match { kAll, kSubset };

// The checkpoint is whole, but not of this model. A run does not fall back on an
// older checkpoint over it.
struct MismatchError : CheckpointError {
  using CheckpointError::CheckpointError;
};

// Throws MismatchError with everything that differs between what is stored and what
// is wanted. `where` names the checkpoint.
void check_match(const Manifest& manifest, std::span<const Piece> wanted, Match match,
                 const std::string& where);

}  // namespace trireme::checkpoint
