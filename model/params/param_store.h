#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "model/params/cut.h"
#include "model/tensor/arena.h"

namespace trireme {

enum class Init : std::uint8_t { kNormal, kOnes, kZeros };

// One logical parameter, as if a single process trained the model.
struct ParamSpec {
  std::string name;  // the same on every rank, in every layout
  Shape shape;
  Cut cut = {};
  Init init = Init::kNormal;
  double init_scale = 0;  // standard deviation of kNormal
  bool decay = false;     // weight decay: matrices only
  bool partial = false;   // each replica's gradient is but a share: their sum is the gradient
};

// The tensors are the rectangle `box` of the logical one; padding is in none of them.
struct Param {
  ParamSpec spec;
  Box box;                  // of the logical tensor, held here
  std::int64_t offset = 0;  // of its first element in the store's flat buffers
  // Of these, empty what is shared out (Sharing) and not here now.
  Tensor value = {};   // compute dtype; what the layers read
  Tensor master = {};  // float32 (float64 for float64): what the optimizer updates; may be `value`
  Tensor grad = {};    // the master's dtype

  // Whether these elements are ours to count in a norm over all ranks and to write
  // to a checkpoint: over the ranks every element is counted once.
  bool counted() const { return spec.cut.replica.index == 0 && box.extent.count() > 0; }
};

// One parameter, or several stored back to back whose rows a single matrix
// product serves at once (query, key and value; gate and up).
struct Weight {
  std::vector<Param> parts;
  int unit = 0;
  Tensor value = {};  // the parts as one tensor, joined along dimension 0, with the padding
  Tensor grad = {};

  // True once a step: the first gradient replaces what the last step left, so
  // that no pass over the gradients is needed to clear them.
  bool first_gradient() {
    const bool first = stale;
    stale = false;
    return first;
  }
  bool stale = true;
};

// How ranks share out the flat buffers: each bucket in `parts` equal parts, of which this
// rank owns one. A buffer that is shared holds the own parts only, back to back.
struct Sharing {
  static constexpr std::int64_t kWholeStore = std::int64_t{1} << 60;

  int parts = 1;
  int part = 0;
  std::int64_t bucket = kWholeStore;  // elements a bucket has at least; 0: every unit is one
  bool values = false, masters = false, gradients = false;  // are shared
};

// Owns the description of every parameter of a rank; its memory comes from three arenas,
// flat, in order of declaration. The layers see tensors, the checkpoint names and boxes,
// the optimizer and the gradient exchange flat ranges: units, of which buckets are made.
class ParamStore {
 public:
  // Every unit starts at a multiple of this, and so does every part of a bucket: what is
  // counted by runs of so many elements from a unit's start is counted alike by all ranks.
  static constexpr std::int64_t kGrain = 4096;

  // Weights that are used together, a block say: the least that is gathered or reduced.
  struct Unit {
    int layer = -1;                   // of the model; -1: none
    bool alone = false;               // shares its bucket with no other
    bool gradient_only = false;       // of a gradient kept apart
    std::int64_t begin = 0, end = 0;  // elements of the flat buffers
    int bucket = 0;
  };
  // Consecutive units, and padding that makes the parts equal.
  struct Bucket {
    int first_unit = 0, end_unit = 0;
    bool gradient_only = false;
    std::int64_t begin = 0, part = 0;  // elements: of the flat buffers, of one part
    std::int64_t own = 0;              // where the own part begins in a buffer of own parts
  };
  // A run of a parameter's elements that this rank owns, row-major in its box.
  struct Owned {
    const Param* param;
    std::int64_t first, count;   // elements of the box
    std::int64_t in_unit;        // its first element's place in the unit
    std::int64_t own;            // and in a buffer of own parts
    Tensor value, master, grad;  // [count]
  };

  // What is declared from here on belongs to a new unit; returns its number.
  int begin_unit(int layer = -1, bool alone = false);
  // Layers declare while they are built; references stay valid. Only the rows of a
  // weight's last part may be padded. Padding is zero and stays so.
  Weight& declare(std::vector<ParamSpec> parts);
  Weight& declare(ParamSpec spec) { return declare(std::vector<ParamSpec>{std::move(spec)}); }

  struct Places {
    Arena& weights;
    Arena& masters;    // stays empty when the compute dtype is its own accumulator
    Arena* gradients;  // null: no gradients, for inference
  };
  // The same values with a gradient of its own, for a parameter used in two places: each
  // place's gradients are summed alone, so that the bits are those of a run in which the
  // two places are on different ranks. A unit of its own; who declares it adds it up (apart).
  Weight& declare_apart(const Weight& of);
  // What a gradient kept apart has to be added to, and it.
  struct Apart {
    const Weight* of;
    Weight weight;
  };
  const std::deque<Apart>& apart() const { return apart_; }

  // Settles where everything is, without memory.
  void lay_out(const Sharing& sharing);
  // Gives every parameter its memory.
  void allocate(Places places, DType compute, const Sharing& sharing = {});

  // Draws every element from (seed, name, index in the logical tensor) with
  // exact operations only: the same bits in every layout, dtype and thread
  // count, on every machine. Made on the host.
  void initialize(std::uint64_t seed);

  // The unit's first gradients from here on replace.
  void expect_gradients(int unit);
  void expect_gradients();
  // After a step's last backward: throws when a parameter got none.
  void require_gradients() const;

  // The layers find the unit's values, or gradients, in `at` from here on, which is laid
  // out like the flat buffers from the unit's bucket's first element on.
  void place_values(int unit, Tensor at);
  void place_gradients(int unit, Tensor at);

  std::deque<Weight>& weights() { return weights_; }
  const std::deque<Weight>& weights() const { return weights_; }
  std::int64_t parameter_count() const;  // logical, without padding, of what is held here

  const std::vector<Unit>& units() const { return units_; }
  const std::vector<Bucket>& buckets() const { return buckets_; }
  const std::vector<Owned>& owned() const { return owned_; }
  const Sharing& sharing() const { return sharing_; }
  // Elements of all buckets with values.
  std::int64_t flat_count() const { return flat_count_; }
  // Elements that gradients need, of which there may be more.
  std::int64_t gradient_count() const { return gradient_count_; }

  // Flat: [flat_count or own_count], gradients [gradient_count or own_gradient_count].
  Tensor values() const { return values_; }  // compute dtype
  Tensor masters() const { return masters_; }
  Tensor grads() const { return grads_; }
  // A bucket's elements in a buffer that holds all, and the own part of them in one that
  // holds all (`shared` false) or own parts only.
  Tensor bucket_of(const Tensor& flat, const Bucket& bucket) const;
  Tensor own_part(const Tensor& flat, const Bucket& bucket, bool shared) const;
  // Where Owned::own is in masters().
  std::int64_t in_masters(const Owned& owned) const;
  // Whether the masters are apart from the values.
  bool has_masters() const { return masters_.dtype != values_.dtype; }

 private:
  static constexpr std::int64_t kAlignment = 64;  // elements: every weight starts on a cache line
  void form_buckets();
  void list_owned();
  template <class Visit>
  void for_each_weight(int unit, const Visit& visit);

  std::deque<Weight> weights_;  // a deque, so that layers may hold references
  std::deque<Apart> apart_;
  std::vector<Unit> units_;
  std::vector<Bucket> buckets_;  // in order of their elements
  std::vector<Owned> owned_;     // in order of declaration
  Sharing sharing_;
  std::int64_t flat_count_ = 0, own_count_ = 0, gradient_count_ = 0, own_gradient_count_ = 0;
  Tensor values_, masters_, grads_;
};

}  // namespace trireme
