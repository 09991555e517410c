#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

// Parallelism axes. The mesh dimensions are those up to kTensor, outermost first: ranks that differ
// only in kTensor are adjacent, so that a tensor group stays on one host. The experts see the data
// and context ranks of a pipeline stage as another grid, kExpertReplicate x kExpert, whose expert
// groups are adjacent; tensor ranks shard each expert as they do other matrices.
enum class Axis : std::uint8_t {
  kPipeline,
  kDataReplicate,
  kDataShard,
  kContext,
  kTensor,
  kExpertReplicate,
  kExpert,
};

// Config name: parallelism.<name_of(axis)>. kExpertReplicate has no key: it is derived from the
// other axes.
const char* name_of(Axis axis);

// Size of each axis, as in the config. 0 for one of the data axes: derived from the world size.
struct MeshShape {
  std::int64_t pipeline = 1;
  std::int64_t data_replicate = 1;
  std::int64_t data_shard = 1;
  std::int64_t context = 1;
  std::int64_t tensor = 1;
  std::int64_t expert = 1;

  // World size; a data axis that is not set counts as 1.
  std::int64_t ranks() const {
    return pipeline * std::max<std::int64_t>(data_replicate, 1) *
           std::max<std::int64_t>(data_shard, 1) * context * tensor;
  }
};

// Rank arithmetic: coordinates and groups, without processes or communicators.
class Mesh {
 public:
  // Throws ConfigError, naming the keys and the nearest valid values, unless the product of the
  // axes is `world` and expert groups divide the data and context ranks of a stage.
  Mesh(const MeshShape& shape, int world);

  int size() const { return size_; }
  int extent(Axis axis) const { return extents_[static_cast<std::size_t>(axis)]; }
  // Coordinate in [0, extent(axis)).
  int coordinate(int rank, Axis axis) const;
  // Ranks that differ from `rank` only along `axes`, including itself, in ascending order (so
  // ordered by coordinate). Expert axes cannot be combined with data and context axes.
  std::vector<int> group(int rank, const std::vector<Axis>& axes) const;

  // Human-readable mapping; hosts[r] is the host of rank r. One summary line, then one line per
  // host.
  std::string describe(const std::vector<std::string>& hosts) const;
  // A warning if a tensor group spans hosts; otherwise empty.
  std::string warning(const std::vector<std::string>& hosts) const;

 private:
  static constexpr int kAxes = 7;

  int stage_size() const { return size_ / extent(Axis::kPipeline); }
  int token_ranks() const { return stage_size() / extent(Axis::kTensor); }  // with own tokens

  int size_;
  std::array<int, kAxes> extents_{};  // by Axis
};

// `shape` with its 0 replaced by the size derived from `world`. Throws ConfigError as Mesh does.
MeshShape fitted(const MeshShape& shape, int world);

}  // namespace trireme
