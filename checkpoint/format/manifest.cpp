#include "checkpoint/format/manifest.h"

#include <algorithm>
#include <span>

#include "checkpoint/format/checksums.h"
#include "checkpoint/format/crc32c.h"
#include "checkpoint/format/json_fields.h"
#include "checkpoint/format/names.h"
#include "model/base/error.h"
#include "model/base/file.h"
#include "model/base/hex.h"

namespace trireme::checkpoint {
namespace {

std::string ending(std::string_view body) {
  return say(",\n  \"crc32c\": \"", hex(crc32c(std::as_bytes(std::span(body)))), "\"\n}\n");
}

}  // namespace

using nlohmann::json;

void json_fields(auto& f, Rectangle& rectangle) {
  f("shard", rectangle.shard);
  f("from", rectangle.box.from, {.most = kMostJsonNumber});
  f("extent", rectangle.box.extent, {.least = 1, .most = kMostJsonNumber});
  f("offset", rectangle.offset, {.most = kMostJsonNumber});
  f("bytes", rectangle.bytes, {.most = kMostJsonNumber});
  f.hex("crc32c", rectangle.crc32c);
  std::string blocks = blocks_text(rectangle.blocks);
  if (!f.has("blocks", !blocks.empty())) return;
  f("blocks", blocks);
  if (!f.kReads) return;
  rectangle.blocks = parse_blocks(blocks, rectangle.bytes);
  f.check("blocks",
          !rectangle.blocks.empty() &&
              joined_crc(rectangle.blocks, rectangle.bytes) == rectangle.crc32c,
          "they do not fit the rectangle's bytes and crc32c");
}

void json_fields(auto& f, StoredTensor& tensor) {
  constexpr std::size_t kMostName = 255;
  f("name", tensor.name, {.most = kMostName});
  f("dtype", tensor.dtype);
  f("shape", tensor.shape, {.least = 1, .most = kMostJsonNumber});
  f.hex("crc32c", tensor.crc32c);
  f("rectangles", tensor.rectangles);
}

void json_fields(auto& f, Manifest& manifest) {
  int format = Manifest::kFormat;
  f("format", format);
  f.check("format", format == Manifest::kFormat,
          say(format, ", this program reads ", Manifest::kFormat));
  f("run", manifest.run);
  f("step", manifest.step, {.most = kMostJsonNumber});
  f.nullable("parent", manifest.parent, {.most = kMostJsonNumber});
  f("sequence", manifest.sequence, {.most = kMostJsonNumber});
  f("written", manifest.written, {.most = 32});
  f.hex("state_crc", manifest.state_crc);
  f("scalars", manifest.scalars);
  f("digests", manifest.digests);
  f("data", manifest.data);
  f("layout", manifest.layout);
  f("versions", manifest.versions);
  f("tokenizer", manifest.tokenizer, {.most = 256});
  f("config", manifest.config, {.most = std::uint64_t{64} << 20});
  f("shards", manifest.shards);
  std::optional<StoredFile> view;
  if (!manifest.in_memory()) view = manifest.view;
  f.nullable("view", view);
  if (f.kReads) manifest.view = view.value_or(StoredFile());
  f("tensors", manifest.tensors);
}

namespace {

// One element a line, for readability and diffs.
std::string lines(const json& list) {
  std::string text = "[";
  for (std::size_t i = 0; i < list.size(); ++i) {
    text += say(i ? "," : "", "\n    ", list[i].dump());
  }
  return text + "\n  ]";
}

}  // namespace

std::uint64_t Manifest::bytes() const {
  std::uint64_t sum = view.bytes;
  for (const StoredFile& shard : shards) sum += shard.bytes;
  return sum;
}

const StoredTensor* Manifest::find(std::string_view tensor) const {
  const auto at = std::lower_bound(
      tensors.begin(), tensors.end(), tensor,
      [](const StoredTensor& stored, std::string_view name) { return stored.name < name; });
  return at != tensors.end() && at->name == tensor ? &*at : nullptr;
}

std::uint32_t state_crc_of(const std::vector<StoredTensor>& tensors) {
  std::string text;
  for (const StoredTensor& tensor : tensors) {
    text += say(tensor.name, " ", name_of(tensor.dtype), " ");
    for (int dim = 0; dim < tensor.shape.rank(); ++dim) {
      text += say(dim ? "," : "", tensor.shape[dim]);
    }
    text += say(" ", hex(tensor.crc32c), "\n");
  }
  return crc32c(std::as_bytes(std::span(text)));
}

std::string to_text(const Manifest& manifest) {
  try {
    std::string body;
    const auto fields = as_json<nlohmann::ordered_json>(manifest);
    for (const auto& [key, field] : fields.items()) {
      const json value = field;  // with sorted keys
      body += say(body.empty() ? "{" : ",", "\n  \"", key,
                  "\": ", value.is_array() ? lines(value) : value.dump());
    }
    return sealed(std::move(body));
  } catch (const json::exception& error) {
    throw Error(say("the manifest cannot be written as JSON: ", error.what()));
  }
}

Manifest parse_manifest(std::string_view text, const std::string& from) {
  check_seal(text, from);
  json parsed = parse_json<CheckpointError>(text, from);
  if (parsed.is_object()) parsed.erase("crc32c");  // the seal
  auto manifest = json_value<Manifest, CheckpointError>(parsed, from);
  check_manifest(manifest, from);
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

std::string sealed(std::string body) {
  body += ending(body);
  return body;
}

void check_seal(std::string_view text, const std::string& from) {
  const std::size_t length = ending({}).size();
  if (text.size() < length) {
    throw CheckpointError(say(from, ": ", text.size(), " bytes only: it is truncated"));
  }
  const std::string_view body = text.substr(0, text.size() - length);
  const std::string expected = ending(body);
  if (text.substr(body.size()) == expected) return;
  throw CheckpointError(say(from, ": damaged: it does not end with its CRC32C (",
                            expected.substr(15, 8), " for what is there)"));
}

}  // namespace trireme::checkpoint
