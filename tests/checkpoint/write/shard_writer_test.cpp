#include "checkpoint/write/shard_writer.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstring>

#include "checkpoint/format/checksums.h"
#include "checkpoint/format/crc32c.h"
#include "checkpoint/write/snapshot_memory.h"
#include "checkpoint/write/writer_process.h"
#include "model/base/error.h"
#include "tests/checkpoint/state.h"

namespace trireme::checkpoint {
namespace {

TEST(WriterProcess, what_its_work_breaks_is_told_and_the_next_request_is_served) {
  WriterProcess writer([](const std::string& request) -> std::string {
    if (request == "crash") std::raise(SIGSEGV);
    if (request == "bad") throw CheckpointError("bad");
    return request + request;
  });
  writer.start("crash");
  EXPECT_THROW(writer.result(), EnvironmentError);
  writer.start("good");
  EXPECT_EQ(writer.result(), "goodgood");
  const pid_t process = writer.id();
  writer.start("bad");
  EXPECT_THROW(writer.result(), CheckpointError);
  const std::string large(3'000'000, 'x');
  writer.start(large);
  EXPECT_EQ(writer.result(), large + large);
  EXPECT_EQ(writer.id(), process);
}

TEST(SnapshotMemory, a_copy_comes_with_the_checksums_of_its_blocks) {
  const State state(3, /*scale=*/301);  // three blocks, the last no multiple of anything
  SnapshotMemory memory(SnapshotMemory::bytes_for(state.pieces()));
  memory.reserve(state.pieces());
  const SnapshotMemory::Copied copied = memory.copy(state.pieces());
  ASSERT_EQ(copied.blocks.size(), state.pieces().size());
  ASSERT_EQ(copied.blocks.front().size(), 3u);
  for (std::size_t i = 0; i < copied.pieces.size(); ++i) {
    const Piece& piece = state.pieces()[i];
    EXPECT_EQ(std::memcmp(copied.pieces[i].data, piece.data, piece.bytes()), 0) << piece.tensor;
    std::vector<std::uint32_t> right;
    for (const Range& block : blocks_of({0, piece.bytes()})) {
      right.push_back(crc32c({piece.data + block.offset, block.bytes}));
    }
    EXPECT_EQ(copied.blocks[i], right) << piece.tensor;
  }
}

TEST(ShardWriter, what_differs_from_the_checksums_of_its_blocks_is_not_accepted) {
  const Scratch scratch;
  const State state(3, /*scale=*/301);
  SnapshotMemory memory(SnapshotMemory::bytes_for(state.pieces()));
  memory.reserve(state.pieces());
  const SnapshotMemory::Copied copied = memory.copy(state.pieces());
  const hdf5::Origin origin{new_uuid(), 1};
  const auto known = write_shard(scratch.path() / "known", origin, copied.pieces, copied.blocks);
  const auto unknown = write_shard(scratch.path() / "unknown", origin, copied.pieces);
  for (std::size_t i = 0; i < known.parts.size(); ++i) {
    EXPECT_EQ(known.parts[i].digest.crc32c, unknown.parts[i].digest.crc32c);
    EXPECT_EQ(known.parts[i].digest.share, unknown.parts[i].digest.share);
  }
  copied.pieces.front().data[2'000'000] ^= std::byte{1};  // after the copy
  EXPECT_THROW(write_shard(scratch.path() / "changed", origin, copied.pieces, copied.blocks),
               CheckpointError);
}

TEST(SnapshotMemory, refuses_what_it_was_not_planned_for) {
  const State state(1, /*scale=*/300);  // 2.9 MB
  SnapshotMemory memory(1 << 20);
  EXPECT_THROW(memory.reserve(state.pieces()), Error);
  EXPECT_THROW(memory.copy(state.pieces()), Error);
}

}  // namespace
}  // namespace trireme::checkpoint
