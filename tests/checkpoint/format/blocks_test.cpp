#include "checkpoint/format/checksums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "checkpoint/format/crc32c.h"
#include "checkpoint/read/load.h"
#include "checkpoint/store/commit.h"
#include "model/base/error.h"
#include "tests/checkpoint/state.h"

namespace trireme::checkpoint {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kMiB = 1 << 20;

TEST(Blocks, cover_their_range_and_are_few) {
  for (const std::uint64_t bytes : {std::uint64_t{1}, kMiB, kMiB + 1, 255 * kMiB, 256 * kMiB + 1,
                                    std::uint64_t{1} << 40, (std::uint64_t{1} << 53) - 1}) {
    std::uint64_t end = 7;
    const std::vector<Range> blocks = blocks_of({7, bytes});
    for (const Range& block : blocks) {
      EXPECT_EQ(block.offset, end);
      end += block.bytes;
    }
    EXPECT_EQ(end, 7 + bytes);
    EXPECT_LE(blocks.size(), 256u);
    EXPECT_EQ(blocks.size() == 1, bytes <= kMiB);
  }
}

TEST(Blocks, their_checksums_make_that_of_the_whole) {
  std::mt19937 random(3);
  for (const std::size_t bytes : {kMiB, 2 * kMiB, 3 * kMiB + 17}) {
    std::vector<std::byte> data(bytes);
    for (std::byte& byte : data) byte = std::byte(random());
    std::vector<std::uint32_t> blocks;
    for (const Range& block : blocks_of({0, bytes})) {
      blocks.push_back(crc32c(std::span(data).subspan(block.offset, block.bytes)));
    }
    EXPECT_EQ(joined_crc(blocks, bytes), crc32c(data));
    EXPECT_EQ(parse_blocks(blocks_text(blocks), bytes), blocks);
  }
}

TEST(Blocks, text_that_does_not_fit_is_nothing) {
  EXPECT_TRUE(parse_blocks("0123456", kMiB).empty());
  EXPECT_TRUE(parse_blocks("0123456789abcdef", kMiB).empty());
  EXPECT_TRUE(parse_blocks("0123456x", kMiB).empty());
  EXPECT_TRUE(parse_blocks("", 0).empty());
  EXPECT_EQ(parse_blocks("01234567", kMiB), std::vector<std::uint32_t>{0x01234567});
}

// A checkpoint whose first tensor has three blocks.
class LargeTensor : public testing::Test {
 protected:
  LargeTensor() : state_(5, /*scale=*/300) {
    std::vector<std::vector<Piece>> ranks{state_.pieces()};
    Manifest manifest;
    manifest.run = new_uuid();
    manifest.written = now_text();
    PartialCheckpoint partial(scratch_.path(), 0);
    write_checkpoint(partial.path(), manifest, ranks);
    publish(partial.path(), 0);
    manifest_ = read_manifest(folder());
  }
  std::filesystem::path folder() const { return scratch_.path() / step_name(0); }
  const Rectangle& stored() const { return manifest_.find(whole().tensor)->rectangles.front(); }
  const Piece& whole() const { return state_.pieces().front(); }

  // Rows [from, to) of it; what is wrong with them, or nothing.
  std::string load(std::int64_t from, std::int64_t to) const {
    Piece rows = whole();
    rows.box.from = {from, 0};
    rows.box.extent = {to - from, rows.shape[1]};
    std::vector<std::byte> memory(rows.bytes());
    rows.data = memory.data();
    try {
      load_pieces(folder(), manifest_, std::span(&rows, 1), Match::kSubset);
    } catch (const CheckpointError& error) {
      return error.what();
    }
    const std::byte* const expected =
        whole().data + from * rows.shape[1] * static_cast<std::int64_t>(size_of(rows.dtype));
    return std::memcmp(expected, memory.data(), memory.size()) == 0 ? "" : "other values";
  }
  void flip(std::uint64_t at) const {
    const auto path = folder() / manifest_.shards.front().name;
    std::FILE* const file = std::fopen(path.c_str(), "r+b");
    std::fseek(file, static_cast<long>(stored().offset + at), SEEK_SET);
    const int byte = std::fgetc(file);
    std::fseek(file, -1, SEEK_CUR);
    std::fputc(byte ^ 1, file);
    std::fclose(file);
  }

  Scratch scratch_;
  State state_;
  Manifest manifest_;
};

TEST_F(LargeTensor, any_rows_are_read) {
  ASSERT_EQ(stored().blocks.size(), 3u);
  const std::int64_t rows = whole().shape[0];
  std::mt19937 random(1);
  EXPECT_EQ(load(0, rows), "");
  for (int i = 0; i < 50; ++i) {
    const auto from = static_cast<std::int64_t>(random() % static_cast<unsigned>(rows));
    const auto count = 1 + static_cast<std::int64_t>(random() % static_cast<unsigned>(rows - from));
    EXPECT_EQ(load(from, from + count), "");
  }
}

TEST_F(LargeTensor, damage_is_found_by_who_reads_its_block_and_by_no_other) {
  const std::int64_t rows = whole().shape[0], row_bytes = whole().shape[1] * 4;
  flip(kMiB + 5);
  const std::int64_t first = kMiB / row_bytes, second = 2 * kMiB / row_bytes;
  EXPECT_EQ(load(0, first), "");
  EXPECT_EQ(load(second + 1, rows), "");
  EXPECT_THAT(load(0, rows), HasSubstr("damaged: tensor " + whole().tensor));
  // Not even a byte of what is wanted is damaged.
  EXPECT_THAT(load(second - 1, second), HasSubstr("damaged"));
}

TEST_F(LargeTensor, without_blocks_all_of_it_is_read) {
  std::vector<StoredTensor>& tensors = manifest_.tensors;
  for (StoredTensor& tensor : tensors) {
    for (Rectangle& rectangle : tensor.rectangles) rectangle.blocks.clear();
  }
  EXPECT_EQ(load(10, 20), "");
  flip(2 * kMiB + 5);
  EXPECT_THAT(load(10, 20), HasSubstr("damaged"));
}

TEST_F(LargeTensor, blocks_that_contradict_the_rectangle_are_refused) {
  for (StoredTensor& tensor : manifest_.tensors) {
    if (tensor.name == whole().tensor) tensor.rectangles.front().blocks[1] ^= 1;
  }
  EXPECT_THROW(parse_manifest(to_text(manifest_), "manifest"), CheckpointError);
}

}  // namespace
}  // namespace trireme::checkpoint
