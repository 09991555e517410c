#pragma once
#include <cstdint>
#include <vector>

#include "checkpoint/format/checksums.h"
#include "checkpoint/format/json_fields.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/format/piece.h"

namespace trireme::checkpoint {

// A rank's report to the leader: how its pieces were written to its shard.
struct WrittenShard {
  StoredFile file;
  struct Part {
    std::uint64_t offset = 0;
    Digest digest;
    std::vector<std::uint32_t> blocks =
        {};  // CRC32C of each block (checksums.h); empty if there is only one
  };
  std::vector<Part> parts;  // one per piece, in the same order
  double seconds = 0;       // until the data was on disk, without reading back
};

TRIREME_JSON(Digest, crc32c, share)
TRIREME_JSON(WrittenShard::Part, offset, digest, blocks)
TRIREME_JSON(WrittenShard, file, parts, seconds)

}  // namespace trireme::checkpoint
