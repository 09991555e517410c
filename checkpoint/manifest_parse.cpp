#include <algorithm>

#include "checkpoint/blocks.h"
#include "checkpoint/boxes.h"
#include "checkpoint/crc32c.h"
#include "checkpoint/json_object.h"
#include "checkpoint/manifest.h"
#include "checkpoint/memory/raw_shard.h"
#include "checkpoint/names.h"
#include "checkpoint/seal.h"
#include "checkpoint/shard_writer.h"
#include "model/base/error.h"
#include "model/base/file.h"

namespace trireme::checkpoint {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMost = std::uint64_t{1}
                                << 53;  // integers that every JSON reader represents exactly
constexpr std::size_t kMostBlocksText = 4096;
constexpr std::size_t kMostText = std::size_t{64} << 20;

// Coordinates of a tensor: `rank` integers of at least `least`.
Shape coordinates(JsonObject& from, const char* key, int rank, std::int64_t least) {
  Shape shape;
  const json& list = from.array(key);
  if (list.empty() || list.size() > Shape::kMaxRank || (rank && list.size() != std::size_t(rank))) {
    from.refuse(key, say(list.size(), " numbers, expected ",
                         rank ? std::to_string(rank) : say("1 to ", Shape::kMaxRank)));
  }
  for (const json& number : list) {
    if (!number.is_number_unsigned() || number.get<std::uint64_t>() > kMost ||
        number.get<std::int64_t>() < least) {
      from.refuse(key, say("whole numbers from ", least, " on are expected"));
    }
    shape.push_back(number.get<std::int64_t>());
  }
  return shape;
}

// The element count of `shape` times `element`; any value above kMost on overflow.
std::uint64_t bytes_of(Shape shape, std::size_t element) {
  std::uint64_t bytes = element;
  for (int dim = 0; dim < shape.rank(); ++dim) {
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(shape[dim]), &bytes)) {
      return ~std::uint64_t{0};
    }
  }
  return bytes;
}

StoredFile parse_file(const json& value, const std::string& where, const std::string& name) {
  JsonObject object(value, where);
  StoredFile file;
  file.name = object.text("file", 64);
  if (file.name != name) object.refuse("file", say("expected ", name));
  file.bytes = object.number("bytes", kMost);
  file.crc32c = object.crc("crc32c");
  object.finish();
  return file;
}

Rectangle parse_rectangle(const json& value, const std::string& where, const StoredTensor& tensor,
                          const std::vector<StoredFile>& shards) {
  JsonObject object(value, where);
  Rectangle rectangle;
  rectangle.shard = object.number("shard", shards.size() - 1);
  rectangle.box.from = coordinates(object, "from", tensor.shape.rank(), 0);
  rectangle.box.extent = coordinates(object, "extent", tensor.shape.rank(), 1);
  rectangle.offset = object.number("offset", kMost);
  rectangle.bytes = object.number("bytes", kMost);
  rectangle.crc32c = object.crc("crc32c");
  const bool has_blocks = value.contains("blocks");
  const std::string blocks = has_blocks ? object.text("blocks", kMostBlocksText) : std::string();
  object.finish();
  for (int dim = 0; dim < tensor.shape.rank(); ++dim) {
    if (rectangle.box.from[dim] + rectangle.box.extent[dim] > tensor.shape[dim]) {
      object.refuse("extent", say("it leaves the tensor's shape ", tensor.shape));
    }
  }
  if (rectangle.bytes != bytes_of(rectangle.box.extent, size_of(tensor.dtype))) {
    object.refuse("bytes", "it does not fit the extent");
  }
  if (has_blocks) {
    rectangle.blocks = parse_blocks(blocks, rectangle.bytes);
    if (rectangle.blocks.empty() ||
        joined_crc(rectangle.blocks, rectangle.bytes) != rectangle.crc32c) {
      object.refuse("blocks", "they do not fit the rectangle's bytes and crc32c");
    }
  }
  const StoredFile& shard = shards[rectangle.shard];
  if (rectangle.offset + rectangle.bytes > shard.bytes) {
    object.refuse("offset", say("it leaves ", shard.name, " of ", shard.bytes, " bytes"));
  }
  return rectangle;
}

StoredTensor parse_tensor(const json& value, const std::string& where,
                          const std::vector<StoredFile>& shards) {
  JsonObject object(value, where);
  StoredTensor tensor;
  tensor.name = object.text("name", 255);
  if (!is_tensor_name(tensor.name)) object.refuse("name", "it is not a tensor's name");
  const auto dtype = dtype_of(object.text("dtype", 16));
  if (!dtype) object.refuse("dtype", "unknown");
  tensor.dtype = *dtype;
  tensor.shape = coordinates(object, "shape", 0, 1);
  if (bytes_of(tensor.shape, size_of(tensor.dtype)) > kMost) object.refuse("shape", "too large");
  tensor.crc32c = object.crc("crc32c");
  const json& rectangles = object.array("rectangles");
  std::vector<Box> boxes;
  for (std::size_t i = 0; i < rectangles.size(); ++i) {
    tensor.rectangles.push_back(
        parse_rectangle(rectangles[i], say(where, ".rectangles[", i, "]"), tensor, shards));
    boxes.push_back(tensor.rectangles.back().box);
  }
  object.finish();
  if (!tile_exactly(boxes, tensor.shape)) {
    object.refuse("rectangles", say("they do not cover ", tensor.name, " exactly once"));
  }
  return tensor;
}

// No byte of a shard belongs to two boxes.
void check_apart(const Manifest& manifest, const std::string& from) {
  struct Place {
    std::size_t shard;
    std::uint64_t offset, end;
    const StoredTensor* tensor;
  };
  std::vector<Place> places;
  for (const StoredTensor& tensor : manifest.tensors) {
    for (const Rectangle& r : tensor.rectangles) {
      places.push_back({r.shard, r.offset, r.offset + r.bytes, &tensor});
    }
  }
  std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
    return std::pair(a.shard, a.offset) < std::pair(b.shard, b.offset);
  });
  for (std::size_t i = 1; i < places.size(); ++i) {
    const Place& a = places[i - 1];
    const Place& b = places[i];
    if (a.shard != b.shard || a.end <= b.offset) continue;
    throw CheckpointError(say(from, ": tensors: ", a.tensor->name, " and ", b.tensor->name,
                              " overlap in ", manifest.shards[a.shard].name));
  }
}

void parse_tables(JsonObject& object, Manifest& manifest, const std::string& from) {
  const json& shards = object.array("shards");
  const bool in_memory = object.any("view").is_null();
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name =
        in_memory ? raw_shard_name(i, shards.size()) : shard_name(i, shards.size());
    manifest.shards.push_back(parse_file(shards[i], say(from, ": shards[", i, "]"), name));
  }
  if (shards.empty()) object.refuse("shards", "there are none");
  if (!in_memory) {
    manifest.view = parse_file(object.any("view"), say(from, ": view"), Manifest::kViewName);
  }
  const json& tensors = object.array("tensors");
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    manifest.tensors.push_back(
        parse_tensor(tensors[i], say(from, ": tensors[", i, "]"), manifest.shards));
    if (i && manifest.tensors[i - 1].name >= manifest.tensors[i].name) {
      object.refuse("tensors", say(manifest.tensors[i].name, " is not in ascending order"));
    }
  }
  check_apart(manifest, from);
}

}  // namespace

Manifest parse_manifest(std::string_view text, const std::string& from) {
  check_seal(text, from);
  const json parsed = parse_json(text, from);
  JsonObject object(parsed, from);
  if (const auto format = object.number("format", kMost); format != Manifest::kFormat) {
    object.refuse("format", say(format, ", this program reads ", Manifest::kFormat));
  }
  Manifest manifest;
  manifest.run = object.text("run", 36);
  if (!is_uuid(manifest.run)) object.refuse("run", "it is not a UUID");
  manifest.step = static_cast<std::int64_t>(object.number("step", kMost));
  if (!object.any("parent").is_null()) {
    manifest.parent = static_cast<std::int64_t>(object.number("parent", kMost));
  }
  manifest.sequence = static_cast<std::int64_t>(object.number("sequence", kMost));
  manifest.written = object.text("written", 32);
  manifest.config = object.text("config", kMostText);
  manifest.tokenizer = object.text("tokenizer", 256);
  manifest.data = object.object("data");
  manifest.scalars = object.object("scalars");
  manifest.digests = object.object("digests");
  manifest.layout = object.object("layout");
  manifest.versions = object.object("versions");
  parse_tables(object, manifest, from);
  manifest.state_crc = object.crc("state_crc");
  object.crc("crc32c");
  object.finish();
  if (manifest.state_crc != state_crc_of(manifest.tensors)) {
    object.refuse("state_crc", say("it does not fit the tensors, whose state_crc is ",
                                   hex(state_crc_of(manifest.tensors))));
  }
  return manifest;
}

Manifest read_manifest(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / Manifest::kFileName;
  Manifest manifest = parse_manifest(read_text(path, Manifest::kMaxText), path.string());
  std::error_code removed;  // removed concurrently by the writer's retention
  const std::filesystem::path resolved = std::filesystem::weakly_canonical(folder, removed);
  const auto step = step_of((removed ? folder : resolved).filename().string());
  if (step && *step != manifest.step) {
    throw CheckpointError(say(path.string(), ": step: it is the manifest of step ", manifest.step));
  }
  return manifest;
}

}  // namespace trireme::checkpoint
