#pragma once
#include <span>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/piece.h"
#include "checkpoint/shard_writer.h"

namespace trireme::checkpoint {

// Throws Error (a caller's bug) unless the pieces of all ranks are well formed, agree on the dtype
// and shape of each tensor, and cover each tensor exactly once.
void check_pieces(std::span<const Piece> pieces);

// The table of tensors, sorted by name. `written[i]` is the report on the pieces `ranks[i]`.
std::vector<StoredTensor> catalogue(std::span<const std::vector<Piece>> ranks,
                                    std::span<const WrittenShard> written);

// Whether the checkpoint may have tensors that were not requested: inference reads only the
// weights, a resumed run reads everything.
enum class Match { kAll, kSubset };

// Throws MismatchError with all differences between the stored and the wanted tensors. `where`
// names the checkpoint.
void check_match(const Manifest& manifest, std::span<const Piece> wanted, Match match,
                 const std::string& where);

}  // namespace trireme::checkpoint
