#include "checkpoint/huggingface/model_folder.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "checkpoint/format/manifest.h"
#include "checkpoint/format/values.h"
#include "model/base/error.h"
#include "model/base/json.h"

namespace trireme::checkpoint::huggingface {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostIndex = 64u << 20;
constexpr std::size_t kMostFiles = 100'000;
constexpr std::size_t kReadBytes = std::size_t{1} << 20;

struct Index {
  std::map<std::string, std::string> weight_map;  // the file of each tensor
};
TRIREME_JSON(Index, weight_map)

// The shards listed in an index, plain names in the same folder, with the tensors of each.
std::map<std::string, std::vector<std::string>> files_of_index(const fs::path& path) {
  const auto index =
      read_json<Index, CheckpointError>(read_text(path, kMostIndex), path.string(), JsonKeys::kAny);
  const auto refuse = [&](const char* why) {
    throw CheckpointError(say(path.string(), ": weight_map: ", why));
  };
  std::map<std::string, std::vector<std::string>> files;
  for (const auto& [tensor, name] : index.weight_map) {
    if (!name.ends_with(".safetensors") || fs::path(name).filename() != name) {
      refuse("names a file that is not a *.safetensors in the same folder");
    }
    files[name].push_back(tensor);
    if (files.size() > kMostFiles) refuse("names too many files");
  }
  if (files.empty()) refuse("names no file");
  return files;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const fs::path& path) : file_(File::open_read(path)) {
  const std::string where = path.string();
  const std::uint64_t size = file_.size();
  if (size < kLengthBytes) throw CheckpointError(say(where, ": too short for safetensors"));
  std::array<std::byte, kLengthBytes> raw{};
  file_.read_at(0, raw);
  std::uint64_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;)
    length = length << 8 | std::to_integer<unsigned>(raw[i]);
  if (length > kMostHeader || length > size - kLengthBytes) {
    throw CheckpointError(say(where, ": has a header length of ", length, " bytes, more than ",
                              std::min(kMostHeader, size - kLengthBytes)));
  }
  std::string text(length, '\0');
  file_.read_at(kLengthBytes, std::as_writable_bytes(std::span(text)));
  data_ = kLengthBytes + length;
  tensors_ = parse_header(text, size - data_, where);
}

void SafetensorsFile::read(const FileTensor& tensor, std::uint64_t at,
                           std::span<std::byte> into) const {
  require(at + into.size() <= tensor.end - tensor.begin, tensor.name, ": read beyond its end");
  file_.read_at(data_ + tensor.begin + at, into);
}

ModelFolder::ModelFolder(fs::path path) : path_(std::move(path)) {
  std::error_code ignored;
  if (fs::exists(path_ / kSingle, ignored)) {
    add(files_.emplace_back(path_ / kSingle));
    return;
  }
  if (!fs::exists(path_ / kIndex, ignored)) {
    throw CheckpointError(say(path_.string(), " has neither ", kSingle, " nor ", kIndex,
                              "; other weight formats are not supported"));
  }
  for (const auto& [name, tensors] : files_of_index(path_ / kIndex)) {
    const SafetensorsFile& file = files_.emplace_back(path_ / name);
    add(file);
    for (const std::string& tensor : tensors) {
      const auto found = places_.find(tensor);
      if (found != places_.end() && found->second.file == &file) continue;
      throw CheckpointError(say((path_ / kIndex).string(), ": ", tensor, " is not in ", name,
                                ", which the index names"));
    }
  }
}

void ModelFolder::add(const SafetensorsFile& file) {
  for (const FileTensor& tensor : file.tensors()) {
    const auto [other, is_new] = places_.try_emplace(tensor.name, Place{&file, &tensor});
    if (is_new) continue;
    throw CheckpointError(say(file.path().string(), ": ", tensor.name, " is also in ",
                              other->second.file->path().filename().string()));
  }
}

std::vector<std::string> ModelFolder::names() const {
  std::vector<std::string> names;
  for (const auto& [name, place] : places_) names.push_back(name);
  return names;
}

SourceTensor ModelFolder::find(const std::string& name) const {
  const auto found = places_.find(name);
  if (found == places_.end()) throw CheckpointError(say(path_.string(), " has no tensor ", name));
  const FileTensor& tensor = *found->second.tensor;
  const auto dtype = dtype_of_file(tensor.dtype);
  if (!dtype || *dtype == DType::kI32) {
    throw CheckpointError(say(path_.string(), ": tensor ", name, " has dtype ", tensor.dtype,
                              "; supported are F32, BF16, F16 and F64"));
  }
  if (tensor.shape.size() > Shape::kMaxRank) {
    throw CheckpointError(
        say(path_.string(), ": tensor ", name, " has ", tensor.shape.size(), " dimensions"));
  }
  SourceTensor source{name, *dtype, {}};
  for (const std::int64_t extent : tensor.shape) source.shape.push_back(extent);
  return source;
}

void ModelFolder::read(const SourceTensor& tensor, std::int64_t first,
                       std::span<float> into) const {
  const Place& place = places_.at(tensor.name);
  const std::size_t element = size_of(tensor.dtype);
  auto at = static_cast<std::uint64_t>(first) * element;
  if (tensor.dtype == DType::kF32) {
    place.file->read(*place.tensor, at, std::as_writable_bytes(into));
    return;
  }
  std::vector<std::byte> raw(std::min(into.size() * element, kReadBytes));
  while (!into.empty()) {
    const std::size_t count = std::min(into.size(), raw.size() / element);
    const std::span<std::byte> part(raw.data(), count * element);
    place.file->read(*place.tensor, at, part);
    float* to = into.data();
    for_each_value(part, tensor.dtype, [&](double value) { *to++ = static_cast<float>(value); });
    into = into.subspan(count);
    at += part.size();
  }
}

bool is_model_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path / ModelFolder::kConfig, ignored) &&
         !fs::exists(path / Manifest::kFileName, ignored);
}

}  // namespace trireme::checkpoint::huggingface
