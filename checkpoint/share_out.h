#pragma once
#include <span>
#include <vector>

#include "checkpoint/piece.h"
#include "checkpoint/team.h"

namespace trireme::checkpoint {

std::vector<Piece> joined(std::span<const std::vector<Piece>> ranks);

// All ranks: the pieces of each, by rank, without memory.
std::vector<std::vector<Piece>> pieces_of_all(const Team& team, std::span<const Piece> pieces);

// Leaves each piece to one of the ranks that hold it, so that the ranks write about the
// same number of bytes: what only one holds first, then replicas where there is least.
// Returns those of `held`, the pieces of `rank` with their memory, that are its to write.
std::vector<Piece> shared_out(std::vector<std::vector<Piece>>& ranks, std::size_t rank,
                              std::span<const Piece> held);

}  // namespace trireme::checkpoint
