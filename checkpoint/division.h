#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/piece.h"
#include "checkpoint/team.h"

namespace trireme::checkpoint {

// Which rank writes which pieces: each once, replicas spread so that all write about the
// same number of bytes.
struct Division {
  std::vector<std::vector<Piece>> ranks;  // to write by each, without memory
  std::vector<Piece> mine;                // this rank's, with memory
  std::uint64_t bytes = 0;                // of all together
};

// All ranks, each with what it holds.
Division divide(const Team& team, std::span<const Piece> held);

// All ranks: what each names, by rank, without memory.
std::vector<std::vector<Piece>> pieces_of_all(const Team& team, std::span<const Piece> own);

std::vector<Piece> joined(std::span<const std::vector<Piece>> ranks);

}  // namespace trireme::checkpoint
