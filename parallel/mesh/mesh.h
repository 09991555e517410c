#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

// Ways in which ranks share the work. Those up to kTensor are the mesh's dimensions,
// outermost first: ranks that differ in kTensor alone are neighbours, so that a tensor
// group stays inside a host. Within one pipeline stage the experts see the same ranks as
// a grid of their own, kExpertReplicate x kExpert (Megatron-LM's expert view with whole
// experts).
enum class Axis : std::uint8_t {
  kPipeline,
  kDataReplicate,
  kDataShard,
  kContext,
  kTensor,
  kExpertReplicate,
  kExpert,
};

// The word of the config: parallelism.<name_of(axis)>. (kExpertReplicate has no key: it is
// what the other axes leave.)
const char* name_of(Axis axis);

// Ranks along each axis, as in the config. 0 for one of the data axes: what is left.
struct MeshShape {
  std::int64_t pipeline = 1;
  std::int64_t data_replicate = 1;
  std::int64_t data_shard = 1;
  std::int64_t context = 1;
  std::int64_t tensor = 1;
  std::int64_t expert = 1;
};

// Who is where, by arithmetic on ranks alone: no process, no communicator.
class Mesh {
 public:
  // Throws ConfigError, naming the keys and the nearest values that would do, unless the
  // axes' product is `world` and experts can be shared out over the ranks of a stage.
  Mesh(const MeshShape& shape, int world);

  int size() const { return size_; }
  int extent(Axis axis) const { return extents_[static_cast<std::size_t>(axis)]; }
  // In [0, extent(axis)).
  int coordinate(int rank, Axis axis) const;
  // Ranks that differ from `rank` along `axes` at most, itself included, in ascending order
  // (so ordered by the axes' coordinates). The expert axes are not mixed with other axes of
  // a stage.
  std::vector<int> group(int rank, const std::vector<Axis>& axes) const;

  // The mapping for people; hosts[r] is the host of rank r. One line, then one for each
  // host.
  std::string describe(const std::vector<std::string>& hosts) const;
  // A warning when a tensor group spans hosts; else empty.
  std::string warning(const std::vector<std::string>& hosts) const;

 private:
  static constexpr int kAxes = 7;

  int stage_size() const { return size_ / extent(Axis::kPipeline); }

  int size_;
  std::array<int, kAxes> extents_{};  // by Axis
};

}  // namespace trireme
