#include "checkpoint/write/division.h"

#include <algorithm>
#include <map>
#include <string>

#include "checkpoint/format/catalogue.h"
#include "checkpoint/format/json_fields.h"
#include "model/base/error.h"

namespace trireme::checkpoint {
namespace {

// Assigns each piece to one of its holders, so that the ranks write similar numbers of bytes: first
// the pieces with one holder, then replicas to the rank with the least bytes. Returns the pieces of
// `held` (those of `rank`, with memory) that `rank` has to write.
std::vector<Piece> shared_out(std::vector<std::vector<Piece>>& ranks, std::size_t rank,
                              std::span<const Piece> held) {
  using Place = std::pair<std::size_t, std::size_t>;  // rank, index
  std::map<std::string, std::vector<Place>> holders;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    for (std::size_t i = 0; i < ranks[r].size(); ++i) {
      holders[say(ranks[r][i].tensor, ranks[r][i].box.from, ranks[r][i].box.extent)].push_back(
          {r, i});
    }
  }
  std::vector<std::uint64_t> bytes(ranks.size());
  std::vector<std::vector<bool>> writes(ranks.size());
  for (std::size_t r = 0; r < ranks.size(); ++r) writes[r].resize(ranks[r].size());
  const auto leave_to = [&](Place place) {
    bytes[place.first] += ranks[place.first][place.second].bytes();
    writes[place.first][place.second] = true;
  };
  for (const auto& [piece, places] : holders) {
    for (std::size_t i = 1; i < places.size(); ++i) {
      require(places[i].first != places[i - 1].first, piece, ": twice on rank ", places[i].first);
    }
    if (places.size() == 1) leave_to(places.front());
  }
  for (const auto& [piece, places] : holders) {
    if (places.size() == 1) continue;
    leave_to(*std::min_element(places.begin(), places.end(), [&](Place a, Place b) {
      return std::pair(bytes[a.first], a) < std::pair(bytes[b.first], b);
    }));
  }
  std::vector<Piece> mine;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    std::vector<Piece> kept;
    for (std::size_t i = 0; i < ranks[r].size(); ++i) {
      if (!writes[r][i]) continue;
      kept.push_back(std::move(ranks[r][i]));
      if (r == rank) mine.push_back(held[i]);
    }
    ranks[r] = std::move(kept);
  }
  return mine;
}

}  // namespace

std::vector<Piece> joined(std::span<const std::vector<Piece>> ranks) {
  std::vector<Piece> all;
  for (const std::vector<Piece>& pieces : ranks) {
    all.insert(all.end(), pieces.begin(), pieces.end());
  }
  return all;
}

std::vector<std::vector<Piece>> pieces_of_all(const Team& team, std::span<const Piece> own) {
  std::vector<std::vector<Piece>> ranks;
  for (const std::string& text : team.together([&] { return json_text(own); })) {
    ranks.push_back(read_json<std::vector<Piece>>(text, "a list of pieces"));
  }
  return ranks;
}

Division divide(const Team& team, std::span<const Piece> held) {
  Division division{pieces_of_all(team, held), {}, 0};
  division.mine = shared_out(division.ranks, static_cast<std::size_t>(team.rank()), held);
  for (const std::vector<Piece>& pieces : division.ranks) {
    for (const Piece& piece : pieces) division.bytes += piece.bytes();
  }
  team.led([&] { check_pieces(joined(division.ranks)); });
  return division;
}

}  // namespace trireme::checkpoint
