#include "checkpoint/store/merge.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>

#include "checkpoint/format/catalogue.h"
#include "checkpoint/format/names.h"
#include "checkpoint/read/load.h"
#include "model/base/error.h"
#include "model/device/cpu/threads.h"

namespace trireme::checkpoint {
namespace {

constexpr std::int64_t kGrain = 1 << 16;

// Whole tensors without memory.
std::vector<Piece> parameters_of(const Manifest& manifest, const std::string& folder) {
  std::vector<Piece> pieces;
  for (const StoredTensor& tensor : manifest.tensors) {
    if (!tensor.name.starts_with(kWeightsPrefix)) continue;
    if (tensor.dtype != DType::kF32) {
      throw CheckpointError(say(folder, ": ", tensor.name, " is ", name_of(tensor.dtype),
                                "; only float32 parameters can be merged"));
    }
    pieces.push_back({tensor.name, tensor.dtype, tensor.shape, all_of(tensor.shape), nullptr});
  }
  if (pieces.empty()) throw CheckpointError(say(folder, " has no parameters"));
  return pieces;
}

void require_same_parameters(const Manifest& manifest, const std::string& folder,
                             std::span<const Piece> wanted, const std::string& first) {
  check_match(manifest, wanted, Match::kSubset, folder);
  std::set<std::string> names;
  for (const Piece& piece : wanted) names.insert(piece.tensor);
  for (const Piece& piece : parameters_of(manifest, folder)) {
    if (!names.contains(piece.tensor)) {
      throw MismatchError(say(folder, " has ", piece.tensor, ", which ", first, " lacks"));
    }
  }
}

}  // namespace

MergedWeights merge_weights(std::span<const MergeInput> inputs) {
  require(!inputs.empty(), "a merge of no checkpoints");
  std::vector<Manifest> manifests;
  for (const MergeInput& input : inputs) manifests.push_back(read_manifest(input.folder));
  MergedWeights merged;
  const std::string first = inputs.front().folder.string();
  merged.pieces = parameters_of(manifests.front(), first);
  double total = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    require_same_parameters(manifests[i], inputs[i].folder.string(), merged.pieces, first);
    total += inputs[i].weight;
  }

  std::size_t elements = 0, largest = 0;
  for (const Piece& piece : merged.pieces) {
    const std::size_t count = piece.bytes() / sizeof(float);
    elements += count;
    largest = std::max(largest, count);
  }
  merged.values.resize(elements);
  std::vector<float> loaded(largest);
  std::vector<double> sum(largest);
  float* to = merged.values.data();
  for (Piece& piece : merged.pieces) {
    const auto count = static_cast<std::int64_t>(piece.bytes() / sizeof(float));
    std::fill_n(sum.begin(), count, 0.0);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      piece.data = reinterpret_cast<std::byte*>(loaded.data());
      load_pieces(inputs[i].folder, manifests[i], {&piece, 1}, Match::kSubset);
      cpu::parallel_for(count, kGrain, [&](std::int64_t from, std::int64_t end) {
        for (std::int64_t at = from; at < end; ++at) sum[at] += inputs[i].weight * loaded[at];
      });
    }
    cpu::parallel_for(count, kGrain, [&](std::int64_t from, std::int64_t end) {
      for (std::int64_t at = from; at < end; ++at) to[at] = static_cast<float>(sum[at] / total);
    });
    piece.data = reinterpret_cast<std::byte*>(to);
    to += count;
  }
  return merged;
}

}  // namespace trireme::checkpoint
