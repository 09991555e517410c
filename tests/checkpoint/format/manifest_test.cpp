#include "checkpoint/format/manifest.h"

#include <gtest/gtest.h>

#include "checkpoint/format/crc32c.h"
#include "model/base/error.h"

namespace trireme::checkpoint {
namespace {

Manifest sample() {
  Manifest manifest;
  manifest.run = "01234567-89ab-4cde-8f01-23456789abcd";
  manifest.step = 100;
  manifest.parent = 50;
  manifest.sequence = 3;
  manifest.written = "2025-01-31T12:00:00Z";
  manifest.shards = {{"shard-00000-of-00002.h5", 5000, 1}, {"shard-00001-of-00002.h5", 4000, 2}};
  manifest.view = {"state.h5", 900, 3};
  manifest.tensors = {{"a/x",
                       DType::kBf16,
                       {4, 6},
                       9,
                       {{0, {{0, 0}, {4, 3}}, 100, 24, 7}, {1, {{0, 3}, {4, 3}}, 200, 24, 8}}},
                      {"b", DType::kF32, {5}, 10, {{1, {{0}, {5}}, 224, 20, 11}}}};
  manifest.config = "a = \"\xc3\xa9\"\n";
  manifest.tokenizer = "bytes";
  manifest.data = {{"samples", 12}, {"sources", {1, 2}}};
  manifest.scalars = {{"optimizer_step", 100}};
  manifest.digests = {{"loss", "3ff0000000000000"}};
  manifest.layout = {{"tensor", 2}};
  manifest.versions = {{"trireme", "0.1.0"}};
  manifest.state_crc = state_crc_of(manifest.tensors);
  return manifest;
}

std::string complaint(const std::string& text) {
  try {
    parse_manifest(text, "M");
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "";
}

// The sample with `old` replaced, and a seal that fits again.
std::string edited(const std::string& old, const std::string& by) {
  std::string text = to_text(sample());
  text.resize(text.rfind(",\n  \"crc32c\""));
  const std::size_t at = text.find(old);
  require(at != std::string::npos, "nothing to edit: ", old);
  return sealed(text.replace(at, old.size(), by));
}

TEST(Manifest, what_is_written_reads_back) {
  const std::string text = to_text(sample());
  EXPECT_EQ(to_text(parse_manifest(text, "M")), text);
  const Manifest manifest = parse_manifest(text, "M");
  EXPECT_EQ(manifest.parent, 50);
  EXPECT_EQ(manifest.config, "a = \"\xc3\xa9\"\n");
  EXPECT_EQ(manifest.tensors[0].rectangles[1].box, (Box{{0, 3}, {4, 3}}));
  EXPECT_EQ(manifest.find("b")->shape, Shape{5});
  EXPECT_EQ(manifest.find("c"), nullptr);
}

TEST(Manifest, a_snapshot_in_memory_has_raw_shards_and_no_view) {
  Manifest manifest = sample();
  manifest.view = {};
  manifest.shards[0].name = "shard-00000-of-00002.raw";
  manifest.shards[1].name = "shard-00001-of-00002.raw";
  const std::string text = to_text(manifest);
  EXPECT_TRUE(parse_manifest(text, "M").in_memory());
  EXPECT_EQ(to_text(parse_manifest(text, "M")), text);
  EXPECT_FALSE(parse_manifest(to_text(sample()), "M").in_memory());
  manifest.shards[1].name = "shard-00001-of-00002.h5";
  EXPECT_NE(complaint(to_text(manifest)).find("expected shard-00001-of-00002.raw"),
            std::string::npos);
}

TEST(Manifest, the_state_crc_is_the_one_of_its_documented_text) {
  const std::string text = "a/x bfloat16 4,6 00000009\nb float32 5 0000000a\n";
  EXPECT_EQ(sample().state_crc, crc32c(std::as_bytes(std::span(text))));
}

TEST(Manifest, every_lie_is_named) {
  const struct {
    const char* old;
    const char* by;
    const char* complaint;
  } kLies[] = {
      {"\"format\": 1", "\"format\": 2", "M: format: 2, this program reads 1"},
      {"\"format\": 1", "\"format\": true",
       "M: format: a whole number from 0 to 2147483647 is expected, found true"},
      {"\"step\": 100", "\"step\": -1",
       "M: step: a whole number from 0 to 9007199254740992 is expected, found -1"},
      {"\"step\": 100", "\"step\": 1e2", "M: step: a whole number from 0"},
      {"\"step\": 100", "\"step\": 18446744073709551615",
       "M: step: a whole number from 0 to 9007199254740992 is expected, found "
       "18446744073709551615"},
      {"\"step\": 100", "\"stop\": 100", "M: step: missing"},
      {"\"step\": 100", "\"step\": 100,\n  \"more\": 1", "M: unknown key \"more\""},
      {"\"step\": 100", "\"step\": 100,\n  \"step\": 101", "M: key \"step\" appears twice"},
      {"\"samples\":12", "\"samples\":12,\"samples\":13", "M: key \"samples\" appears twice"},
      {"01234567-", "0123456_-", "M: run: it is not a UUID"},
      {"shard-00001-of", "../rd-00001-of", "M: shards[1].file: expected shard-00001-of-00002.h5"},
      {"\"state.h5\"", "\"/etc/pw\"", "M: view.file: expected state.h5"},
      {"\"name\":\"b\"", "\"name\":\"../b\"", "M: tensors[1].name: it is not a tensor's name"},
      {"\"name\":\"b\"", "\"name\":\"a/x\"", "M: tensors: a/x is not in ascending order"},
      {"\"bfloat16\"", "\"float8\"",
       "M: tensors[0].dtype: the name of a dtype is expected, found \"float8\""},
      {"\"shape\":[4,6]", "\"shape\":[4,0]",
       "M: tensors[0].shape[1]: a whole number from 1 to 9007199254740992 is expected, found 0"},
      {"\"shape\":[4,6]", "\"shape\":[]",
       "M: tensors[0].shape: 1 to 4 numbers are expected, found []"},
      {"\"shape\":[4,6]", "\"shape\":[9007199254740992,9007199254740992]",
       "M: tensors[0].shape: too large"},
      {"\"shape\":[4,6]", "\"shape\":[4,7]",
       "M: tensors[0].rectangles: they do not cover a/x exactly once"},
      {"\"extent\":[4,3]", "\"extent\":[4,4]", "M: tensors[0].rectangles[0].bytes: it does not"},
      {"\"extent\":[4,3],\"from\":[0,3]", "\"extent\":[4,3],\"from\":[0,4]",
       "M: tensors[0].rectangles[1].extent: it leaves the tensor's shape [4, 6]"},
      {"\"offset\":100", "\"offset\":4990",
       "M: tensors[0].rectangles[0].offset: it leaves shard-00000-of-00002.h5 of 5000 bytes"},
      {"\"offset\":224", "\"offset\":223", "M: tensors: a/x and b overlap in shard-00001"},
      {"\"shard\":1", "\"shard\":2", "M: tensors[0].rectangles[1].shard: 2 is more than 1"},
      {"\"crc32c\":\"00000009\"", "\"crc32c\":\"00000008\"", "M: state_crc: it does not fit"},
      {"\"crc32c\":\"00000009\"", "\"crc32c\":\"0000000A\"",
       "M: tensors[0].crc32c: 8 hex digits are expected, found \"0000000A\""},
      {"\"data\": {", "\"data\": [{", "M: [json.exception.parse_error"},
      {"\"tensor\":2",
       "\"tensor\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"
       "]]]]]]",
       "M: nested too deeply"},
  };
  for (const auto& lie : kLies) {
    const std::string found = complaint(edited(lie.old, lie.by));
    EXPECT_EQ(found.substr(0, std::string(lie.complaint).size()), lie.complaint);
  }
}

TEST(Manifest, a_seal_that_does_not_fit_is_refused_before_anything_is_parsed) {
  const std::string text = to_text(sample());
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string bad = text;
    bad[at] ^= 1;
    EXPECT_NE(complaint(bad).find("does not end with its CRC32C"), std::string::npos) << at;
  }
  EXPECT_NE(complaint("").find("truncated"), std::string::npos);
  EXPECT_NE(complaint(text + "\n"), "");
}

}  // namespace
}  // namespace trireme::checkpoint
