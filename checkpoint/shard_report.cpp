#include "checkpoint/shard_report.h"

#include <nlohmann/json.hpp>

#include "checkpoint/manifest.h"
#include "checkpoint/names.h"
#include "model/base/error.h"

namespace trireme::checkpoint {
namespace {

using nlohmann::json;

Shape shape_of(const json& list) {
  Shape shape;
  for (const json& number : list) shape.push_back(number.get<std::int64_t>());
  return shape;
}

}  // namespace

std::string pieces_text(const std::vector<Piece>& pieces) {
  json list = json::array();
  for (const Piece& piece : pieces) {
    list.push_back({piece.tensor, name_of(piece.dtype), shape_numbers(piece.shape),
                    shape_numbers(piece.box.from), shape_numbers(piece.box.extent)});
  }
  return list.dump();
}

std::vector<Piece> parse_pieces(const std::string& text) {
  std::vector<Piece> pieces;
  for (const json& item : json::parse(text)) {
    const auto dtype = dtype_of(item[1].get<std::string>());
    require(dtype.has_value(), "a piece of dtype ", item[1].get<std::string>());
    pieces.push_back(
        {item[0], *dtype, shape_of(item[2]), Box{shape_of(item[3]), shape_of(item[4])}, nullptr});
  }
  return pieces;
}

std::string shard_text(const WrittenShard& shard) {
  json list = {shard.file.name, shard.file.bytes, shard.file.crc32c, shard.seconds};
  for (const auto& part : shard.parts) {
    list.push_back({part.offset, part.digest.crc32c, part.digest.share, part.blocks});
  }
  return list.dump();
}

WrittenShard parse_shard(const std::string& text) {
  const json list = json::parse(text);
  WrittenShard shard{{list[0], list[1], list[2]}, {}, list[3]};
  for (std::size_t i = 4; i < list.size(); ++i) {
    shard.parts.push_back({list[i][0], {list[i][1], list[i][2]}, list[i][3]});
  }
  return shard;
}

}  // namespace trireme::checkpoint
