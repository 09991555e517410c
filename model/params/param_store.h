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
  Box box;              // of the logical tensor, held here
  std::int64_t offset;  // of its first element in the store's flat buffers
  Tensor value;         // compute dtype; what the layers read
  Tensor master;        // float32 (float64 for float64): what the optimizer updates; may be `value`
  Tensor grad;          // the master's dtype

  // Whether these elements are ours to count in a norm over all ranks and to write
  // to a checkpoint: over the ranks every element is counted once.
  bool counted() const { return spec.cut.replica.index == 0 && box.extent.count() > 0; }
};

// One parameter, or several stored back to back whose rows a single matrix
// product serves at once (query, key and value; gate and up).
struct Weight {
  std::vector<Param> parts;
  Tensor value;  // the parts as one tensor, joined along dimension 0, with the padding
  Tensor grad;

  // True once a step: the first gradient replaces what the last step left, so
  // that no pass over the gradients is needed to clear them.
  bool first_gradient() {
    const bool first = stale;
    stale = false;
    return first;
  }
  bool stale = true;
};

// Owns the description of every parameter of one stage; its memory comes from
// three arenas, flat, in order of declaration. The optimizer and the gradient
// exchange see flat ranges, the checkpoint names and boxes, the layers tensors.
class ParamStore {
 public:
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
  // two places are on different ranks. Who declares it adds it up (apart).
  Weight& declare_apart(const Weight& of);
  // What a gradient kept apart has to be added to, and it.
  struct Apart {
    const Weight* of;
    Weight weight;
  };
  const std::deque<Apart>& apart() const { return apart_; }

  // Gives every parameter its memory. The flat length is a multiple of `multiple` elements.
  void allocate(Places places, DType compute, std::int64_t multiple = kAlignment);

  // Draws every element from (seed, name, index in the logical tensor) with
  // exact operations only: the same bits in every layout, dtype and thread
  // count, on every machine. Made on the host.
  void initialize(std::uint64_t seed);

  // Before a step's first backward.
  void expect_gradients();
  // After its last: throws when a parameter got none.
  void require_gradients() const;

  std::deque<Weight>& weights() { return weights_; }
  const std::deque<Weight>& weights() const { return weights_; }
  std::int64_t parameter_count() const;  // logical, without padding, of what is held here

  Tensor values() const { return values_; }    // flat, compute dtype
  Tensor masters() const { return masters_; }  // flat
  Tensor grads() const { return grads_; }      // flat
  // Whether the masters are apart from the values.
  bool has_masters() const { return masters_.dtype != values_.dtype; }

 private:
  static constexpr std::int64_t kAlignment = 64;  // elements: every weight starts on a cache line
  std::deque<Weight> weights_;                    // a deque, so that layers may hold references
  std::deque<Apart> apart_;
  Tensor values_, masters_, grads_;
};

}  // namespace trireme
