#include "checkpoint/shard_writer.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "checkpoint/blocks.h"
#include "checkpoint/child.h"
#include "checkpoint/hdf5/shard_file.h"
#include "checkpoint/hdf5/view_file.h"
#include "checkpoint/payload_file.h"
#include "checkpoint/scan.h"
#include "model/base/file.h"
#include "model/base/hex.h"

namespace trireme::checkpoint {
namespace {

// Writes a piece window by window and computes its digest while the data is in the cache.
Digest write_piece(PayloadFile& file, const Piece& piece, std::uint64_t offset) {
  const std::uint64_t bytes = piece.bytes();
  std::uint64_t written = 0;
  const auto read = [&](std::uint64_t at, std::size_t n) {
    if (at + n > written) {
      const std::uint64_t to = std::min<std::uint64_t>(bytes, written + kWindow);
      file.write_at(offset + written, {piece.data + written, to - written});
      written = to;
    }
    return std::span<const std::byte>(piece.data + at, n);
  };
  return digest_of(piece.box, piece.shape, size_of(piece.dtype), read);
}

// Same for a piece with known block checksums: its bytes need not be read if they are one
// contiguous range of the tensor.
Digest write_piece(PayloadFile& file, const Piece& piece, std::uint64_t offset,
                   const std::vector<std::uint32_t>& blocks) {
  const std::uint32_t crc = joined_crc(blocks, piece.bytes());
  const auto share = share_of(piece.box, piece.shape, size_of(piece.dtype), crc);
  if (!share) return write_piece(file, piece, offset);
  file.write_at(offset, {piece.data, piece.bytes()});
  return {crc, *share};
}

// `scan` covers the blocks of all pieces.
void check_read_back(const std::filesystem::path& path, const Scan& scan,
                     std::span<const Piece> pieces, std::vector<WrittenShard::Part>& parts) {
  auto block = scan.ranges.begin();
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::uint64_t bytes = pieces[i].bytes();
    const auto count = static_cast<std::ptrdiff_t>(blocks_of({0, bytes}).size());
    parts[i].blocks.assign(block, block + count);
    block += count;
    const std::uint32_t got = joined_crc(parts[i].blocks, bytes);
    if (count == 1) parts[i].blocks.clear();
    if (got == parts[i].digest.crc32c) continue;
    throw CheckpointError(say(path.string(), " reads back differently: tensor ", pieces[i].tensor,
                              ", CRC32C ", hex(got), ", written ", hex(parts[i].digest.crc32c)));
  }
}

}  // namespace

std::string shard_name(std::size_t shard, std::size_t of) {
  const auto five = [](std::size_t number) {
    const std::string digits = std::to_string(number);
    return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
  };
  return say("shard-", five(shard), "-of-", five(of), ".h5");
}

WrittenShard write_shard(const std::filesystem::path& path, const hdf5::Origin& origin,
                         std::span<const Piece> pieces,
                         std::span<const std::vector<std::uint32_t>> known) {
  const auto start = std::chrono::steady_clock::now();
  const std::vector<std::uint64_t> offsets =
      nlohmann::json::parse(in_child(say("laying out ", path.string()), [&] {
        return nlohmann::json(hdf5::lay_out(path, origin, pieces)).dump();
      }));
  WrittenShard shard;
  std::vector<Range> blocks;
  {
    PayloadFile file(path);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const Digest digest = known.empty() ? write_piece(file, pieces[i], offsets[i])
                                          : write_piece(file, pieces[i], offsets[i], known[i]);
      shard.parts.push_back({offsets[i], digest, {}});
      for (const Range block : blocks_of({offsets[i], pieces[i].bytes()})) blocks.push_back(block);
    }
    file.finish();
  }
  shard.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const Scan scan = scan_file(path, blocks);
  check_read_back(path, scan, pieces, shard.parts);
  shard.file = {path.filename(), scan.bytes, scan.crc32c};
  return shard;
}

StoredFile write_view(const std::filesystem::path& path, const Manifest& manifest) {
  const std::string report = in_child(say("writing ", path.string()), [&] {
    hdf5::write_view(path, manifest);
    File::open_write(path).sync();
    const Scan scan = scan_file(path, {});
    return nlohmann::json({scan.bytes, scan.crc32c}).dump();
  });
  const auto json = nlohmann::json::parse(report);
  return {path.filename(), json[0], json[1]};
}

}  // namespace trireme::checkpoint
