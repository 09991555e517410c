#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "checkpoint/format/boxes.h"
#include "checkpoint/format/manifest.h"
#include "model/base/error.h"

namespace {

using trireme::checkpoint::Manifest;

// What the loader relies on without looking again.
void check_places(const Manifest& manifest) {
  for (const auto& tensor : manifest.tensors) {
    std::uint64_t bytes = 0;
    for (const auto& rectangle : tensor.rectangles) {
      const auto& shard = manifest.shards.at(rectangle.shard);
      if (rectangle.offset > shard.bytes || rectangle.bytes > shard.bytes - rectangle.offset) {
        std::abort();
      }
      for (int dim = 0; dim < tensor.shape.rank(); ++dim) {
        const std::int64_t end = rectangle.box.from[dim] + rectangle.box.extent[dim];
        if (rectangle.box.from[dim] < 0 || end > tensor.shape[dim]) std::abort();
      }
      bytes += rectangle.bytes;
    }
    if (bytes != tensor.bytes()) std::abort();
    if (manifest.find(tensor.name) != &tensor) std::abort();
  }
}

void parse(const std::string& text) {
  try {
    const Manifest manifest = trireme::checkpoint::parse_manifest(text, "manifest.json");
    check_places(manifest);
    const std::string again = to_text(manifest);
    if (to_text(trireme::checkpoint::parse_manifest(again, "again")) != again) std::abort();
  } catch (const trireme::CheckpointError& error) {
    if (std::string(error.what()).empty()) std::abort();
  }
}

}  // namespace

// Any text either gives a manifest that reads back to itself and whose rectangles lie
// where they may, or one CheckpointError. The text is tried as it is and with a
// checksum that fits, so that the parser behind the checksum is reached.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  parse(text);
  parse(trireme::checkpoint::sealed(text));
  return 0;
}
