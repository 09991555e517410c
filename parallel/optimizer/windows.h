#pragma once
#include <algorithm>
#include <array>
#include <span>

#include "parallel/optimizer/optimizer.h"
#include "parallel/optimizer/staging.h"

namespace trireme {

// Arguments of one update.
struct UpdateStep {
  Stream& stream;
  Tensor grad_scale;
  double learning_rate;
  std::int64_t update;
};

// State with these names and one dtype.
inline std::vector<Optimizer::State> states_of(std::span<const char* const> names, DType dtype) {
  std::vector<Optimizer::State> states;
  for (const char* name : names) states.push_back({name, dtype});
  return states;
}

// Presents ranges to the kernels. bfloat16 state is widened in chunks that fit a cache and rounded
// back stochastically, so that small changes accumulate in the mean; published weights are rounded
// stochastically too if requested. Otherwise the whole range is one chunk.
class Windows {
 public:
  static constexpr std::size_t kMostStates = 2;

  struct Piece {
    Tensor value, master;  // as the ops expect: no master if the value is in the accumulator dtype
    Tensor grad;
    std::array<Tensor, kMostStates> state;
    Tensor weight() const { return master ? master : value; }  // in the accumulator dtype
  };
  // What a body writes; it may read everything.
  enum class Writes : std::uint8_t { kState, kWeights, kBoth };

  explicit Windows(const OptimizerOptions& options) : options_(options) {}
  // Allocates workspace for the state of one chunk.
  void prepare(std::span<const UpdateRange> ranges, Arena& workspace);

  // The dtype in which state is stored.
  DType state_dtype(DType accumulator) const;

  // Calls body(piece) for all chunks of the range. `states` are names of Optimizer::state().
  template <class Body>
  void each(const UpdateStep& step, const UpdateRange& range, std::span<const char* const> states,
            Writes writes, const Body& body) const {
    const bool state = writes != Writes::kWeights, weights = writes != Writes::kState;
    each_part(step.stream, range, piece_length(range, writes), /*into=*/0,
              {.master = true, .state = state}, {.master = weights, .state = state},
              [&](const UpdateRange& part) {
                const Piece piece = open(step, part, states.size(), writes);
                body(piece);
                close(step, part, states, writes, piece);
              });
  }

 private:
  bool rounds(const UpdateRange& range, Writes writes) const;
  bool widens(Writes writes) const;
  std::int64_t piece_length(const UpdateRange& range, Writes writes) const;
  Piece open(const UpdateStep& step, const UpdateRange& part, std::size_t states,
             Writes writes) const;
  void close(const UpdateStep& step, const UpdateRange& part, std::span<const char* const> states,
             Writes writes, const Piece& piece) const;

  OptimizerOptions options_;
  std::array<Tensor, kMostStates> wide_;
};

}  // namespace trireme
