#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/format/manifest.h"
#include "checkpoint/format/names.h"
#include "checkpoint/format/piece.h"
#include "model/base/json.h"

// Fields of what several files of checkpoint/ write as JSON.
namespace trireme {

inline std::vector<std::int64_t> json_form(const Shape& shape) {
  std::vector<std::int64_t> extents;
  for (int dim = 0; dim < shape.rank(); ++dim) extents.push_back(shape[dim]);
  return extents;
}
inline const char* set_json_form(Shape& shape, const std::vector<std::int64_t>& extents) {
  if (extents.empty() || extents.size() > Shape::kMaxRank) return "1 to 4 numbers are";
  shape = {};
  for (const std::int64_t extent : extents) shape.push_back(extent);
  return nullptr;
}

inline std::string json_form(DType dtype) {
  return name_of(dtype);
}
inline const char* set_json_form(DType& dtype, const std::string& name) {
  const auto known = checkpoint::dtype_of(name);
  dtype = known.value_or(dtype);
  return known ? nullptr : "the name of a dtype is";
}

TRIREME_JSON(Box, from, extent)

namespace checkpoint {

void json_fields(auto& f, StoredFile& file) {
  constexpr std::size_t kMostName = 64;
  f("file", file.name, {.most = kMostName});
  f("bytes", file.bytes, {.most = kMostJsonNumber});
  f.hex("crc32c", file.crc32c);
}

// A rank's pieces, without memory.
TRIREME_JSON(Piece, tensor, dtype, shape, box)

}  // namespace checkpoint
}  // namespace trireme
