#include "parallel/mesh/mesh.h"

#include <algorithm>

#include "model/base/error.h"
#include "parallel/mesh/mesh_shape.h"

namespace trireme {
namespace {

constexpr std::array kExpertView{Axis::kPipeline, Axis::kExpertReplicate, Axis::kExpert};
constexpr std::array kMainView{Axis::kPipeline, Axis::kDataReplicate, Axis::kDataShard,
                               Axis::kContext, Axis::kTensor};

template <class Axes>
bool contains(const Axes& axes, Axis axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

}  // namespace

const char* name_of(Axis axis) {
  switch (axis) {
    case Axis::kPipeline:
      return "pipeline";
    case Axis::kDataReplicate:
      return "data_replicate";
    case Axis::kDataShard:
      return "data_shard";
    case Axis::kContext:
      return "context";
    case Axis::kTensor:
      return "tensor";
    case Axis::kExpertReplicate:
      return "expert_replicate";
    case Axis::kExpert:
      return "expert";
  }
  return "";
}

Mesh::Mesh(const MeshShape& shape, int world) : size_(world) {
  const MeshShape whole = fitted(shape, world);
  const auto set = [this](Axis axis, std::int64_t extent) {
    extents_[static_cast<std::size_t>(axis)] = static_cast<int>(extent);
  };
  set(Axis::kPipeline, whole.pipeline);
  set(Axis::kDataReplicate, whole.data_replicate);
  set(Axis::kDataShard, whole.data_shard);
  set(Axis::kContext, whole.context);
  set(Axis::kTensor, whole.tensor);
  set(Axis::kExpert, whole.expert);
  set(Axis::kExpertReplicate, stage_size() / whole.expert);
}

int Mesh::coordinate(int rank, Axis axis) const {
  require(rank >= 0 && rank < size_, "no rank ", rank, " in a mesh of ", size_);
  const int in_stage = rank % stage_size();
  switch (axis) {
    case Axis::kPipeline:
      return rank / stage_size();
    case Axis::kExpert:
      return in_stage % extent(Axis::kExpert);
    case Axis::kExpertReplicate:
      return in_stage / extent(Axis::kExpert);
    default:
      break;
  }
  int rest = in_stage;
  for (std::size_t a = kMainView.size() - 1; kMainView[a] != axis; --a)
    rest /= extent(kMainView[a]);
  return rest % extent(axis);
}

std::vector<int> Mesh::group(int rank, const std::vector<Axis>& axes) const {
  const bool is_of_experts =
      contains(axes, Axis::kExpert) || contains(axes, Axis::kExpertReplicate);
  const auto agree = [&](const auto& view, int other) {
    return std::all_of(view.begin(), view.end(), [&](Axis axis) {
      return contains(axes, axis) || coordinate(other, axis) == coordinate(rank, axis);
    });
  };
  for (const Axis axis : axes) {
    require(is_of_experts ? contains(kExpertView, axis) : contains(kMainView, axis),
            "a group along ", name_of(axis), " and the experts' axes");
  }
  std::vector<int> ranks;
  for (int other = 0; other < size_; ++other) {
    if (is_of_experts ? agree(kExpertView, other) : agree(kMainView, other)) {
      ranks.push_back(other);
    }
  }
  return ranks;
}

}  // namespace trireme
