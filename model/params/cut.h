#pragma once
#include <cstdint>
#include <vector>

#include "model/tensor/tensor.h"

namespace trireme {

// Shard `index` of `count`. The only thing layers know about parallelism.
struct Slice {
  int index = 0;
  int count = 1;
  bool operator==(const Slice&) const = default;
};

// How one logical parameter is sharded along dimension `dim`; this rank has shard `slice`.
struct Cut {
  int dim = -1;  // -1: not sharded
  Slice slice = {};
  // Ranks with the same shard are its replicas; they are adjacent. Replica 0 is the primary
  // replica: only it is checkpointed and counted in norms over all ranks.
  Slice replica = {};
  // The padded extent, a multiple of slice.count, if larger than the logical one. Padding exists in
  // memory only.
  std::int64_t padded = 0;
  bool operator==(const Cut&) const = default;
};

// A parameter that is replicated on all ranks.
inline Cut whole(Slice holders) {
  return {.dim = -1, .slice = {}, .replica = holders};
}

// Shards a dimension of `pieces` equal, indivisible units: every rank gets the same number of units
// or, if there are fewer units than ranks, one unit shared with adjacent ranks. One number must be
// a multiple of the other.
Cut cut_pieces(int dim, std::int64_t pieces, Slice holders);

// A box of elements: [from, from + extent) in every dimension.
struct Box {
  Shape from, extent;
  bool operator==(const Box&) const = default;
};

// The shape of this rank's shard, padding included. Throws ConfigError if the dimension does not
// divide.
Shape local_shape(Shape logical, Cut cut);

// The box of the logical tensor at the start of this rank's shard, in row-major order; may be
// empty. Without padding it is the whole shard.
Box placement(Shape logical, Cut cut);

// Splits elements [first, first + count) of a box, in row-major order, into boxes of the logical
// tensor: the end of a row, whole rows, the start of a row. At most three.
struct BoxOfRun {
  Box box;
  std::int64_t at;  // offset of its first element in the range
};
std::vector<BoxOfRun> boxes_of_run(const Box& box, std::int64_t first, std::int64_t count);

}  // namespace trireme
