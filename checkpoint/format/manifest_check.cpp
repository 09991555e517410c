#include <algorithm>

#include "checkpoint/format/boxes.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/format/names.h"
#include "model/base/error.h"
#include "model/base/hex.h"
#include "model/base/json.h"

namespace trireme::checkpoint {
namespace {

// The element count of `shape` times `element`; any value above kMostJsonNumber on overflow.
std::uint64_t bytes_of(Shape shape, std::size_t element) {
  std::uint64_t bytes = element;
  for (int dim = 0; dim < shape.rank(); ++dim) {
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(shape[dim]), &bytes)) {
      return ~std::uint64_t{0};
    }
  }
  return bytes;
}

// The key and what is wrong with its value; empty if nothing is.
std::string problem_of(const Rectangle& rectangle, const StoredTensor& tensor,
                       const std::vector<StoredFile>& shards) {
  if (rectangle.shard >= shards.size()) {
    return say("shard: ", rectangle.shard, " is more than ", shards.size() - 1);
  }
  const int rank = tensor.shape.rank();
  if (rectangle.box.from.rank() != rank || rectangle.box.extent.rank() != rank) {
    return say("extent: it and from need ", rank, " numbers");
  }
  for (int dim = 0; dim < rank; ++dim) {
    if (rectangle.box.from[dim] + rectangle.box.extent[dim] > tensor.shape[dim]) {
      return say("extent: it leaves the tensor's shape ", tensor.shape);
    }
  }
  if (rectangle.bytes != bytes_of(rectangle.box.extent, size_of(tensor.dtype))) {
    return "bytes: it does not fit the extent";
  }
  const StoredFile& shard = shards[rectangle.shard];
  if (rectangle.offset + rectangle.bytes > shard.bytes) {
    return say("offset: it leaves ", shard.name, " of ", shard.bytes, " bytes");
  }
  return "";
}

std::string problem_of(const StoredTensor& tensor) {
  if (!is_tensor_name(tensor.name)) return "name: it is not a tensor's name";
  if (bytes_of(tensor.shape, size_of(tensor.dtype)) > kMostJsonNumber) return "shape: too large";
  return "";
}

std::string problem_of(const StoredFile& file, const std::string& name) {
  return file.name == name ? "" : say("file: expected ", name);
}

// No byte of a shard belongs to two boxes.
std::string overlap_in(const Manifest& manifest) {
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
    return say("tensors: ", a.tensor->name, " and ", b.tensor->name, " overlap in ",
               manifest.shards[a.shard].name);
  }
  return "";
}

}  // namespace

void check_manifest(const Manifest& manifest, const std::string& from) {
  const auto refuse = [&](const std::string& problem, const auto&... place) {
    if (!problem.empty()) throw CheckpointError(say(from, ": ", place..., problem));
  };
  const std::vector<StoredFile>& shards = manifest.shards;
  if (!is_uuid(manifest.run)) refuse("run: it is not a UUID");
  if (shards.empty()) refuse("shards: there are none");
  const auto name_of_shard = manifest.in_memory() ? raw_shard_name : shard_name;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    refuse(problem_of(shards[i], name_of_shard(i, shards.size())), "shards[", i, "].");
  }
  if (!manifest.in_memory()) refuse(problem_of(manifest.view, Manifest::kViewName), "view.");
  const StoredTensor* previous = nullptr;
  for (std::size_t i = 0; i < manifest.tensors.size(); ++i) {
    const StoredTensor& tensor = manifest.tensors[i];
    refuse(problem_of(tensor), "tensors[", i, "].");
    std::vector<Box> boxes;
    for (const Rectangle& rectangle : tensor.rectangles) {
      refuse(problem_of(rectangle, tensor, shards), "tensors[", i, "].rectangles[", boxes.size(),
             "].");
      boxes.push_back(rectangle.box);
    }
    if (!tile_exactly(boxes, tensor.shape)) {
      refuse(say("tensors[", i, "].rectangles: they do not cover ", tensor.name, " exactly once"));
    }
    if (previous && previous->name >= tensor.name) {
      refuse(say("tensors: ", tensor.name, " is not in ascending order"));
    }
    previous = &tensor;
  }
  refuse(overlap_in(manifest));
  if (manifest.state_crc != state_crc_of(manifest.tensors)) {
    refuse(say("state_crc: it does not fit the tensors, whose state_crc is ",
               hex(state_crc_of(manifest.tensors))));
  }
}

}  // namespace trireme::checkpoint
