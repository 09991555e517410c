#include "checkpoint/manifest.h"

#include <algorithm>

#include "checkpoint/blocks.h"
#include "checkpoint/crc32c.h"
#include "checkpoint/seal.h"
#include "model/base/error.h"

namespace trireme::checkpoint {
namespace {

using nlohmann::json;

json to_json(const StoredFile& file) {
  return {{"file", file.name}, {"bytes", file.bytes}, {"crc32c", hex(file.crc32c)}};
}

json to_json(const StoredTensor& tensor) {
  json rectangles = json::array();
  for (const Rectangle& rectangle : tensor.rectangles) {
    rectangles.push_back({{"shard", rectangle.shard},
                          {"from", shape_numbers(rectangle.box.from)},
                          {"extent", shape_numbers(rectangle.box.extent)},
                          {"offset", rectangle.offset},
                          {"bytes", rectangle.bytes},
                          {"crc32c", hex(rectangle.crc32c)}});
    if (!rectangle.blocks.empty()) rectangles.back()["blocks"] = blocks_text(rectangle.blocks);
  }
  return {{"name", tensor.name},
          {"dtype", name_of(tensor.dtype)},
          {"shape", shape_numbers(tensor.shape)},
          {"crc32c", hex(tensor.crc32c)},
          {"rectangles", rectangles}};
}

// One element per line, for readability and diffs.
template <class List>
std::string lines(const List& list) {
  std::string text = "[";
  for (std::size_t i = 0; i < list.size(); ++i) {
    text += say(i ? "," : "", "\n    ", to_json(list[i]).dump());
  }
  return text + "\n  ]";
}

}  // namespace

json shape_numbers(const Shape& shape) {
  json list = json::array();
  for (int dim = 0; dim < shape.rank(); ++dim) list.push_back(shape[dim]);
  return list;
}

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
  std::string body = say("{\n  \"format\": ", Manifest::kFormat);
  const auto put = [&](const char* key, const std::string& value) {
    body += say(",\n  \"", key, "\": ", value);
  };
  try {
    put("run", json(manifest.run).dump());
    put("step", std::to_string(manifest.step));
    put("parent", manifest.parent ? std::to_string(*manifest.parent) : "null");
    put("sequence", std::to_string(manifest.sequence));
    put("written", json(manifest.written).dump());
    put("state_crc", json(hex(manifest.state_crc)).dump());
    put("scalars", manifest.scalars.dump());
    put("digests", manifest.digests.dump());
    put("data", manifest.data.dump());
    put("layout", manifest.layout.dump());
    put("versions", manifest.versions.dump());
    put("tokenizer", json(manifest.tokenizer).dump());
    put("config", json(manifest.config).dump());
    put("shards", lines(manifest.shards));
    put("view", manifest.in_memory() ? "null" : to_json(manifest.view).dump());
    put("tensors", lines(manifest.tensors));
  } catch (const json::exception& error) {
    throw Error(say("the manifest cannot be written as JSON: ", error.what()));
  }
  return sealed(std::move(body));
}

}  // namespace trireme::checkpoint
