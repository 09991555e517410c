#include "trainer/convert/huggingface/weight_export.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "checkpoint/format/boxes.h"
#include "checkpoint/format/checksums.h"
#include "checkpoint/huggingface/safetensors_writer.h"
#include "checkpoint/read/load.h"
#include "model/base/error.h"

namespace trireme {
namespace {

using checkpoint::huggingface::ModelFolder;
using checkpoint::huggingface::NewTensor;
using checkpoint::huggingface::SafetensorsWriter;

constexpr std::uint64_t kTile = 32;  // tile size of transposition, which fits the cache

std::int64_t width_of(const Shape& shape) {
  return shape.rank() == 2 ? shape[1] : 1;
}

template <class T>
void store(std::span<const float> values, std::vector<std::byte>& into) {
  into.resize(values.size() * sizeof(T));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const T value(values[i]);
    std::memcpy(into.data() + i * sizeof(T), &value, sizeof(T));
  }
}

// Element (r, c) of `from` goes to c * stride + r * step.
void transpose(const float* from, std::int64_t rows, std::int64_t columns, float* to,
               std::int64_t stride, std::int64_t step) {
  const auto tile = static_cast<std::int64_t>(kTile);
  for (std::int64_t r0 = 0; r0 < rows; r0 += tile) {
    for (std::int64_t c0 = 0; c0 < columns; c0 += tile) {
      for (std::int64_t c = c0; c < std::min(c0 + tile, columns); ++c) {
        for (std::int64_t r = r0; r < std::min(r0 + tile, rows); ++r) {
          to[c * stride + r * step] = from[r * columns + c];
        }
      }
    }
  }
}

}  // namespace

float rounded_to(DType dtype, float value) {
  if (dtype == DType::kBf16) return static_cast<float>(Bf16(value));
  if (dtype == DType::kF16) return static_cast<float>(F16(value));
  return value;
}

WeightExport::WeightExport(const Spec& spec) : spec_(spec), tensors_(foreign_tensors(spec.model)) {
  std::set<std::string> known;
  std::uint64_t in_file = 0;
  for (const ForeignTensor& tensor : tensors_) {
    for (const ForeignTensor::Part& part : tensor.parts) {
      const checkpoint::StoredTensor* stored = spec_.manifest.find(spec_.prefix + part.parameter);
      const bool fits = stored && stored->shape == part.shape && stored->dtype == DType::kF32;
      if (!fits) {
        throw CheckpointError(say(spec_.checkpoint.string(), " has no float32 tensor ",
                                  spec_.prefix, part.parameter, " of shape ", part.shape));
      }
      known.insert(stored->name);
    }
    const std::uint64_t bytes =
        static_cast<std::uint64_t>(tensor.shape.count()) * size_of(dtype_of(tensor));
    if (files_.empty() || in_file + bytes > spec_.shard_bytes) {
      files_.emplace_back();
      in_file = 0;
    }
    files_.back().push_back(&tensor);
    in_file += bytes;
    bytes_ += bytes;
  }
  for (const checkpoint::StoredTensor& stored : spec_.manifest.tensors) {
    if (!stored.name.starts_with(spec_.prefix) || known.contains(stored.name)) continue;
    throw CheckpointError(say(spec_.checkpoint.string(), ": tensor ", stored.name,
                              " has no counterpart in transformers' ", spec_.model.model_type));
  }
}

// The blocks, the read window and the list of reads.
std::uint64_t WeightExport::memory() const {
  constexpr std::uint64_t kReading = 2 * checkpoint::kWindow;
  std::uint64_t line = 0;
  for (const ForeignTensor& tensor : tensors_) {
    const auto width =
        static_cast<std::uint64_t>(tensor.transposed ? tensor.rows() : width_of(tensor.shape));
    line = std::max(line, width * sizeof(float));
  }
  return 3 * std::max(spec_.block_bytes, line) + kReading;
}

std::vector<WeightExport::Rows> WeightExport::blocks(std::int64_t rows, std::int64_t width) const {
  const auto fit = static_cast<std::int64_t>(spec_.block_bytes / sizeof(float)) / width;
  const std::int64_t each = std::clamp<std::int64_t>(fit, 1, rows);
  std::vector<Rows> all;
  for (std::int64_t at = 0; at < rows; at += each) all.push_back({at, std::min(each, rows - at)});
  return all;
}

void WeightExport::load(const ForeignTensor::Part& part, Rows rows, Rows columns,
                        float* into) const {
  Box box = checkpoint::all_of(part.shape);
  box.from[0] = rows.first;
  box.extent[0] = rows.count;
  if (part.shape.rank() == 2) {
    box.from[1] = columns.first;
    box.extent[1] = columns.count;
  }
  const checkpoint::Piece piece{spec_.prefix + part.parameter, DType::kF32, part.shape, box,
                                reinterpret_cast<std::byte*>(into)};
  checkpoint::load_pieces(spec_.checkpoint, spec_.manifest, {&piece, 1},
                          checkpoint::Match::kSubset);
}

void WeightExport::round(const ForeignTensor& tensor, std::span<const float> values) {
  const DType dtype = dtype_of(tensor);
  if (dtype == DType::kBf16) {
    store<Bf16>(values, rounded_);
  } else if (dtype == DType::kF16) {
    store<F16>(values, rounded_);
  } else {
    store<float>(values, rounded_);
    return;
  }
  for (const float value : values) {
    if (!std::isfinite(value) || std::isfinite(rounded_to(dtype, value))) continue;
    throw CheckpointError(say("tensor ", tensor.name, " has value ", value, ", which overflows ",
                              name_of(dtype), "; export with --dtype bfloat16 or float32"));
  }
}

void WeightExport::write(const ForeignTensor& tensor, SafetensorsWriter& file) {
  if (tensor.transposed) {
    // A slab's parts are adjacent.
    for (auto first = tensor.parts.begin(), end = first; first != tensor.parts.end(); first = end) {
      end = std::find_if(first, tensor.parts.end(),
                         [&](const ForeignTensor::Part& part) { return part.slab != first->slab; });
      write_slab(tensor, {first, end}, file);
    }
    return;
  }
  for (const ForeignTensor::Part& part : tensor.parts) {
    const std::int64_t width = width_of(part.shape);
    for (const Rows rows : blocks(part.shape[0], width)) {
      block_.resize(static_cast<std::size_t>(rows.count * width));
      load(part, rows, {0, width}, block_.data());
      round(tensor, block_);
      file.append(rounded_);
    }
  }
}

void WeightExport::write_slab(const ForeignTensor& tensor,
                              std::span<const ForeignTensor::Part> parts, SafetensorsWriter& file) {
  const std::int64_t rows = tensor.rows();
  for (const Rows columns : blocks(width_of(parts.front().shape), rows)) {
    other_.resize(static_cast<std::size_t>(columns.count * rows));
    for (const ForeignTensor::Part& part : parts) {
      block_.resize(static_cast<std::size_t>(columns.count * part.shape[0]));
      load(part, {0, part.shape[0]}, columns, block_.data());
      transpose(block_.data(), part.shape[0], columns.count, other_.data() + part.first_row, rows,
                part.row_step);
    }
    round(tensor, other_);
    file.append(rounded_);
  }
}

std::string WeightExport::name_of_file(std::size_t index) const {
  if (files_.size() == 1) return ModelFolder::kSingle;
  return fmt::format("model-{:05}-of-{:05}.safetensors", index + 1, files_.size());
}

void WeightExport::write(const std::filesystem::path& folder) {
  for (std::size_t i = 0; i < files_.size(); ++i) {
    std::vector<NewTensor> header;
    for (const ForeignTensor* tensor : files_[i]) {
      header.push_back({tensor->name, tensor->shape, dtype_of(*tensor)});
    }
    SafetensorsWriter file(folder / name_of_file(i), header, spec_.dtype);
    for (const ForeignTensor* tensor : files_[i]) write(*tensor, file);
    file.finish();
  }
  if (files_.size() > 1) write_index(folder);
  release();
}

// Frees the buffers for later stages.
void WeightExport::release() {
  std::vector<float>().swap(block_);
  std::vector<float>().swap(other_);
  std::vector<std::byte>().swap(rounded_);
}

void WeightExport::write_index(const std::filesystem::path& folder) const {
  nlohmann::ordered_json index = {{"metadata", {{"total_size", bytes_}}},
                                  {"weight_map", nlohmann::ordered_json::object()}};
  for (std::size_t i = 0; i < files_.size(); ++i) {
    for (const ForeignTensor* tensor : files_[i]) {
      index["weight_map"][tensor->name] = name_of_file(i);
    }
  }
  replace_text(folder / ModelFolder::kIndex, index.dump(2) + "\n");
}

void WeightExport::compare(const ForeignWeights& written) {
  for (const ForeignTensor& tensor : tensors_) {
    for (const ForeignTensor::Part& part : tensor.parts) {
      const std::int64_t width = width_of(part.shape);
      for (const Rows rows : blocks(part.shape[0], width)) {
        block_.resize(static_cast<std::size_t>(rows.count * width));
        other_.resize(block_.size());
        load(part, rows, {0, width}, block_.data());
        Box box = checkpoint::all_of(part.shape);
        box.from[0] = rows.first;
        box.extent[0] = rows.count;
        const checkpoint::Piece piece{std::string(checkpoint::kWeightsPrefix) + part.parameter,
                                      DType::kF32, part.shape, box,
                                      reinterpret_cast<std::byte*>(other_.data())};
        written.fill({&piece, 1});
        for (float& value : block_) value = rounded_to(dtype_of(tensor), value);
        if (std::memcmp(block_.data(), other_.data(), block_.size() * sizeof(float)) == 0) continue;
        throw CheckpointError(say("exported tensor ", tensor.name, " differs from ", part.parameter,
                                  " of the checkpoint"));
      }
    }
  }
  release();
}

}  // namespace trireme
