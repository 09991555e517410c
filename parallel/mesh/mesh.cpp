#include "parallel/mesh/mesh.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "model/base/error.h"

namespace trireme {
namespace {

constexpr std::array kExpertView{Axis::kPipeline, Axis::kExpertReplicate, Axis::kExpert,
                                 Axis::kTensor};
constexpr std::array kMainView{Axis::kPipeline, Axis::kDataReplicate, Axis::kDataShard,
                               Axis::kContext, Axis::kTensor};

template <class Axes>
bool contains(const Axes& axes, Axis axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

struct Extent {
  Axis axis;
  std::int64_t value;
};
using Extents = std::array<Extent, 5>;

Extents extents_of(const MeshShape& shape) {
  return {{{Axis::kPipeline, shape.pipeline},
           {Axis::kDataReplicate, shape.data_replicate},
           {Axis::kDataShard, shape.data_shard},
           {Axis::kContext, shape.context},
           {Axis::kTensor, shape.tensor}}};
}

// Saturates at the maximum.
std::int64_t product(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  return b != 0 && a > kMost / b ? kMost : a * b;
}

std::int64_t product_but(const Extents& extents, Axis left_out) {
  std::int64_t n = 1;
  for (const Extent& extent : extents) {
    if (extent.axis != left_out) n = product(n, extent.value);
  }
  return n;
}

std::string key(Axis axis) {
  return say("parallelism.", name_of(axis));
}

std::string formula(const Extents& extents) {
  std::string text;
  for (const Extent& extent : extents) {
    text += say(text.empty() ? "" : " x ", name_of(extent.axis), " ", extent.value);
  }
  return text;
}

// The divisors of n nearest to `value`: "2 or 4".
std::string nearest_divisors(std::int64_t n, std::int64_t value) {
  std::int64_t below = 0, above = 0;
  for (std::int64_t d = 1; d <= n; ++d) {
    if (n % d != 0) continue;
    if (d <= value) below = d;
    if (d > value && above == 0) above = d;
  }
  if (below == 0 || above == 0) return say(std::max(below, above));
  return say(below, " or ", above);
}

// Suggested change if the product is not `world`: one axis if that suffices, otherwise each axis
// that is impossible.
std::string remedy(const Extents& extents, std::int64_t world) {
  std::string single, dividing;
  for (const Extent& extent : extents) {
    const std::int64_t others = product_but(extents, extent.axis);
    if (world % others == 0) {
      single += say(single.empty() ? "" : " or ", key(extent.axis), " = ", world / others);
    }
    if (world % extent.value != 0) {
      dividing += say(dividing.empty() ? "" : ", ", key(extent.axis), " = ",
                      nearest_divisors(world, extent.value));
    }
  }
  if (!single.empty()) return say("set ", single);
  if (!dividing.empty()) return say("each must divide ", world, ": nearest ", dividing);
  return "lower several of them";
}

void check_values(const Extents& extents, std::int64_t expert) {
  int open = 0;
  for (const Extent& extent : extents) {
    const bool may_be_open = extent.axis == Axis::kDataReplicate || extent.axis == Axis::kDataShard;
    if (may_be_open && extent.value == 0) ++open;
    if (extent.value < (may_be_open ? 0 : 1)) {
      throw ConfigError(say(key(extent.axis), " = ", extent.value, ": must be at least 1"));
    }
  }
  if (expert < 1) {
    throw ConfigError(say(key(Axis::kExpert), " = ", expert, ": must be at least 1"));
  }
  if (open == 2) {
    throw ConfigError(say(key(Axis::kDataReplicate), " and ", key(Axis::kDataShard),
                          ": set at least one of them; the other then defaults to what is left"));
  }
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
  set(Axis::kExpertReplicate, token_ranks() / whole.expert);
}

int Mesh::coordinate(int rank, Axis axis) const {
  require(rank >= 0 && rank < size_, "no rank ", rank, " in a mesh of ", size_);
  const int in_stage = rank % stage_size();
  switch (axis) {
    case Axis::kPipeline:
      return rank / stage_size();
    case Axis::kExpert:
      return in_stage / extent(Axis::kTensor) % extent(Axis::kExpert);
    case Axis::kExpertReplicate:
      return in_stage / extent(Axis::kTensor) / extent(Axis::kExpert);
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
  for (const Axis axis : axes) {
    require(is_of_experts ? contains(kExpertView, axis) : contains(kMainView, axis),
            "a group along ", name_of(axis), " and the experts' axes");
  }
  // Ranks so far, extended axis by axis from the outermost, which keeps them in ascending order.
  std::vector<int> ranks{0};
  int stride = size_;
  const auto extend = [&](Axis axis) {
    stride /= extent(axis);
    std::vector<int> more;
    const bool is_along = contains(axes, axis);
    const int own = is_along ? 0 : coordinate(rank, axis);
    more.reserve(ranks.size() * static_cast<std::size_t>(is_along ? extent(axis) : 1));
    for (const int first : ranks) {
      for (int i = 0; i < (is_along ? extent(axis) : 1); ++i) {
        more.push_back(first + (own + i) * stride);
      }
    }
    ranks = std::move(more);
  };
  if (is_of_experts) {
    std::for_each(kExpertView.begin(), kExpertView.end(), extend);
  } else {
    std::for_each(kMainView.begin(), kMainView.end(), extend);
  }
  return ranks;
}

MeshShape fitted(const MeshShape& shape, int world) {
  check_values(extents_of(shape), shape.expert);
  MeshShape whole = shape;
  for (std::int64_t* open : {&whole.data_replicate, &whole.data_shard}) {
    if (*open != 0) continue;
    *open = 1;  // if the other axes do not divide the world, the message below says so
    *open = std::max<std::int64_t>(1, world / product_but(extents_of(whole), Axis::kExpert));
  }
  const Extents extents = extents_of(whole);
  const std::int64_t ranks = product_but(extents, Axis::kExpert);
  if (ranks != world) {
    throw ConfigError(say("parallelism: ", formula(extents), " = ", ranks, " ranks, but ", world,
                          world == 1 ? " was" : " were", " launched; ", remedy(extents, world),
                          ", or launch ", ranks, " ranks"));
  }
  const std::int64_t token_ranks = ranks / whole.pipeline / whole.tensor;
  if (token_ranks % whole.expert != 0) {
    throw ConfigError(say(key(Axis::kExpert), " = ", whole.expert, " does not divide the ",
                          token_ranks, " data and context ranks of a pipeline stage (",
                          formula(extents),
                          "); nearest: ", nearest_divisors(token_ranks, whole.expert)));
  }
  const std::int64_t sharding = whole.data_shard * whole.context;
  if (sharding % whole.expert != 0 && whole.expert % sharding != 0) {
    throw ConfigError(say(key(Axis::kExpert), " = ", whole.expert,
                          " neither divides nor is a multiple of ", key(Axis::kDataShard), " x ",
                          name_of(Axis::kContext), " = ", sharding,
                          "; nearest: ", nearest_divisors(sharding, whole.expert)));
  }
  return whole;
}

}  // namespace trireme
