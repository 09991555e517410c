#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/format/piece.h"
#include "parallel/comm/team.h"

namespace trireme::checkpoint {

// Assigns pieces to writers: each piece is written once, and replicas are chosen so that the ranks
// write similar numbers of bytes.
struct Division {
  std::vector<std::vector<Piece>> ranks;  // pieces written by each rank, without memory
  std::vector<Piece> mine;                // pieces written by this rank, with memory
  std::uint64_t bytes = 0;                // total over all ranks
};

// Collective: every rank passes the pieces it holds. Throws Error (a caller's bug) unless they are
// well formed and cover each tensor exactly once.
Division divide(const Team& team, std::span<const Piece> held);

// Collective: the pieces of every rank, without memory.
std::vector<std::vector<Piece>> pieces_of_all(const Team& team, std::span<const Piece> own);

std::vector<Piece> joined(std::span<const std::vector<Piece>> ranks);

}  // namespace trireme::checkpoint
