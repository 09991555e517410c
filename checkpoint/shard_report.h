#pragma once
#include <string>
#include <vector>

#include "checkpoint/piece.h"
#include "checkpoint/shard_writer.h"

namespace trireme::checkpoint {

// What a rank tells its leader: its pieces, without their memory, and how they were
// written. Between processes of one run only, so the text is trusted.
std::string pieces_text(const std::vector<Piece>& pieces);
std::vector<Piece> parse_pieces(const std::string& text);

std::string shard_text(const WrittenShard& shard);
WrittenShard parse_shard(const std::string& text);

}  // namespace trireme::checkpoint
