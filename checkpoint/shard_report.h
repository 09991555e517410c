#pragma once
#include <string>
#include <vector>

#include "checkpoint/piece.h"
#include "checkpoint/shard_writer.h"

namespace trireme::checkpoint {

// A rank's report to the leader: its pieces, without memory, and how they were written. Exchanged
// only between processes of one run, so the text is trusted.
std::string pieces_text(const std::vector<Piece>& pieces);
std::vector<Piece> parse_pieces(const std::string& text);

std::string shard_text(const WrittenShard& shard);
WrittenShard parse_shard(const std::string& text);

}  // namespace trireme::checkpoint
