#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/params/cut.h"
#include "model/tensor/arena.h"
#include "model/tensor/update_tensors.h"

namespace trireme {

enum class Init : std::uint8_t { kNormal, kOnes, kZeros };

// Parameters by the ranks that hold the same ones and may shard them: under expert parallelism
// these are fewer for experts than for the rest of the model, which is dense.
enum class ParamGroup : std::uint8_t { kDense, kExperts };

// A logical parameter, independent of the layout.
struct ParamSpec {
  std::string name;  // the same on every rank, in every layout
  Shape shape;
  Cut cut = {};
  Init init = Init::kNormal;
  double init_scale = 0;  // standard deviation of kNormal
  bool decay = false;     // weight decay: matrices only
  bool partial = false;   // each replica's gradient is a partial sum; see PartialGradients
  ParamGroup group = ParamGroup::kDense;
  // State that layers read in float32 and no optimizer updates: its gradient is zero.
  bool is_buffer = false;
  bool operator==(const ParamSpec&) const = default;
};
// Of a weight's parts. Stores that declare the same weight may share them.
using ParamSpecs = std::shared_ptr<const std::vector<ParamSpec>>;

// The tensors are the box `box` of the logical tensor, without padding.
struct Param {
  const ParamSpec& spec;    // in Weight::specs
  Box box;                  // of the logical tensor, on this rank
  std::int64_t offset = 0;  // of its first element in the store's flat buffers
  // Empty if sharded and not present.
  Tensor value = {};   // compute dtype, read by the layers
  Tensor master = {};  // float32 (float64 for float64), updated by the optimizer; may be `value`
  Tensor grad = {};    // dtype of the master

  // Whether this rank counts these elements in norms and checkpoints: over all ranks every element
  // is counted once.
  bool is_primary_replica() const { return spec.cut.replica.index == 0 && box.extent.count() > 0; }
};

// Float8 codes of a weight and of its transpose, with one scale, which its layer keeps while the
// weight does not change. Empty: the layer quantizes for each product.
struct KeptCodes {
  Tensor plain{}, transposed{};  // I32: four codes per word
  Tensor inverse_scale{};        // [1] F32
  bool stale = true;             // to be made before the next use

  explicit operator bool() const { return static_cast<bool>(plain); }
};

struct Weight;

// Consecutive elements of a parameter's box, in row-major order, that this rank owns: it updates
// them and writes them to checkpoints. Value, master and gradient are views of the store's buffers
// (no gradient for inference); the optimizer allocates the states, which may be bfloat16, and the
// average.
struct ParamShard : UpdateTensors {
  Tensor average = {};             // exponential average of the master, in its dtype; empty: none
  const Weight* weight = nullptr;  // `param` is one of its parts
  const Param* param = nullptr;
  std::int64_t first = 0;    // offset in the box
  std::int64_t in_unit = 0;  // offset in the unit

  // Elements [at, at + n).
  ParamShard slice(std::int64_t at, std::int64_t n) const;
};

// One parameter, or several stored contiguously whose rows are used by a single matrix product
// (query, key and value; gate and up).
struct Weight {
  ParamSpecs specs = {};  // of the parts
  std::vector<Param> parts = {};
  int unit = 0;
  Tensor value = {};  // all parts concatenated along dimension 0, with padding
  Tensor grad = {};
  // Of experts whose gradients by tokens of each expert rank are kept apart, for reproducible sums:
  // these gradients, the first of which is `grad`. Otherwise empty.
  std::vector<Tensor> grads_by_rank = {};
  KeptCodes codes = {};
  Tensor buffer = {};  // of a buffer: F32, whole on every rank that reads it; fill_buffers()

  // True once per step: the first gradient replaces that of the previous step, so that no pass
  // clears the gradients.
  bool first_gradient() {
    const bool first = stale;
    stale = false;
    return first;
  }
  bool stale = true;
};

// How the flat buffers are sharded over ranks: each bucket in `parts` equal shards, of which this
// rank owns one, or in `expert_parts` for experts. A sharded buffer has only the owned shards,
// contiguously.
struct Sharing {
  static constexpr std::int64_t kWholeStore = std::int64_t{1} << 60;

  int parts = 1;
  int part = 0;
  int expert_parts = 1;
  int expert_part = 0;
  std::int64_t bucket = kWholeStore;  // minimum elements of a bucket; 0: one bucket per unit
  bool values = false, masters = false, gradients = false;  // which are sharded
};

// Describes every parameter of a rank; memory comes from three arenas, as flat buffers in order of
// declaration. Layers see tensors, checkpoints names and boxes, optimizers and gradient reduction
// flat ranges: units, which are grouped into buckets.
class ParamStore {
 public:
  // Alignment of every unit, and of every shard of a bucket: chunks of this many elements from a
  // unit's start are the same on all ranks.
  static constexpr std::int64_t kGrain = 4096;

  // Weights that are used together, such as a block: the smallest granularity of all-gather and
  // reduction.
  struct Unit {
    int layer = -1;  // in the model; -1: none
    ParamGroup group = ParamGroup::kDense;
    int experts = -1;                 // unit of the experts used together with this one; -1: none
    bool alone = false;               // has a bucket of its own
    bool gradient_only = false;       // has only a separate gradient
    std::int64_t begin = 0, end = 0;  // range in the flat buffers
    int bucket = 0;
  };
  // Units of one group, contiguous in the flat buffers, and padding for equal shards.
  struct Bucket {
    ParamGroup group = ParamGroup::kDense;
    bool gradient_only = false;
    std::vector<int> units = {};       // ascending
    int parts = 1, owned = 0;          // shards, and the one of this rank
    std::int64_t begin = 0, part = 0;  // elements: start in the flat buffers, size of a shard
    std::int64_t own = 0;              // start of the owned shard in a buffer of owned shards
    std::int64_t count() const { return part * parts; }
  };

  // Starts a new unit for the following declarations; returns its number.
  int begin_unit(int layer = -1, bool alone = false);
  // Layers declare their weights at construction; references stay valid. Only the rows of a
  // weight's last part may be padded. Padding is always zero. Experts have a unit of their own
  // next to the unit begun last, and the parts of their weights are equal in size.
  Weight& declare(ParamSpecs parts);
  Weight& declare(std::vector<ParamSpec> parts) {
    return declare(std::make_shared<const std::vector<ParamSpec>>(std::move(parts)));
  }
  Weight& declare(ParamSpec spec) { return declare(std::vector<ParamSpec>{std::move(spec)}); }

  struct Places {
    Arena& weights;
    Arena& masters;    // unused if the compute dtype is its own accumulator
    Arena* gradients;  // null: no gradients, for inference
  };
  // The same values with a separate gradient, for a parameter used in two places (tied embeddings):
  // each place's gradients are summed separately, so that the bits equal those of a layout with the
  // two places on different ranks. It has its own unit; the caller adds the two gradients
  // (apart()).
  Weight& declare_apart(const Weight& of);
  // A separate gradient, and the gradient to which it must be added.
  struct Apart {
    const Weight* of;
    Weight weight;
  };
  const std::deque<Apart>& apart() const { return apart_; }

  // Computes all offsets, without allocating memory.
  void lay_out(const Sharing& sharing);
  // Allocates memory for all parameters.
  void allocate(Places places, DType compute, const Sharing& sharing = {});

  // Initializes every element from (seed, name, index in the logical tensor) with exact operations
  // only: the same bits in every layout, dtype and thread count, on every machine. Computed on the
  // host.
  void initialize(std::uint64_t seed);

  // Copies this rank's masters into the buffers; the other elements are 0. Queued.
  void fill_buffers(Stream& stream);

  // The next gradients of the unit replace.
  void expect_gradients(int unit);
  void expect_gradients();
  // Weights may have changed: the codes that layers keep are stale.
  void expect_codes();
  // Whether the next gradient of each weight replaces, in order of weights() and apart(), and
  // whether its codes are stale: what a forward and a backward change on the host, for work that is
  // repeated without its calls.
  std::vector<bool> stale() const;
  void set_stale(const std::vector<bool>& stale);
  // Called after the last backward of a step: throws if a parameter got no gradient.
  void require_gradients() const;

  // From here on the unit's values, or gradients, are in `at`, which is laid out like the flat
  // buffers from the first element of the unit's bucket on.
  void place_values(int unit, Tensor at);
  void place_gradients(int unit, Tensor at);
  // The same with gradients apart by expert rank (Weight::grads_by_rank).
  void place_gradients(int unit, const std::vector<Tensor>& by_rank);

  std::deque<Weight>& weights() { return weights_; }
  const std::deque<Weight>& weights() const { return weights_; }

  const std::vector<Unit>& units() const { return units_; }
  const std::vector<Bucket>& buckets() const { return buckets_; }
  // Those of buffers are last.
  std::vector<ParamShard>& shards() { return shards_; }
  const std::vector<ParamShard>& shards() const { return shards_; }
  const Sharing& sharing() const { return sharing_; }

  // Flat: the elements of all buckets, or those that this rank owns. There may be more gradients
  // than values, see declare_apart.
  Tensor values() const { return values_; }  // compute dtype
  Tensor masters() const { return masters_; }
  Tensor grads() const { return grads_; }
  // A bucket's elements in an unsharded buffer, and its owned shard in an unsharded (`shared`
  // false) or sharded buffer.
  Tensor bucket_of(const Tensor& flat, const Bucket& bucket) const;
  Tensor own_part(const Tensor& flat, const Bucket& bucket, bool shared) const;
  // Whether masters and values are different tensors.
  bool has_masters() const { return masters_.dtype != values_.dtype; }

 private:
  static constexpr std::int64_t kAlignment = 64;  // elements: every weight starts at a cache line
  int unit_of(ParamGroup group);
  void form_buckets();
  void group_units(ParamGroup group);
  void list_shards();
  const std::vector<Weight*>& weights_of(int unit) const {
    return weights_of_unit_[static_cast<std::size_t>(unit)];
  }

  std::deque<Weight> weights_;  // a deque, so that references of layers stay valid
  std::deque<Apart> apart_;
  std::vector<Unit> units_;
  int begun_ = -1;                  // unit of the next declarations
  std::vector<Bucket> buckets_;     // by offset
  std::vector<ParamShard> shards_;  // in order of declaration, those of buffers last
  // By unit: its weights, and where its values and gradients were placed last.
  std::vector<std::vector<Weight*>> weights_of_unit_;
  std::vector<Tensor> values_at_, gradients_at_;
  Sharing sharing_;
  std::int64_t flat_count_ = 0, own_count_ = 0, gradient_count_ = 0, own_gradient_count_ = 0;
  Tensor values_, masters_, grads_;
};

}  // namespace trireme
