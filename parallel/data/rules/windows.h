#pragma once
#include <algorithm>
#include <array>
#include <span>

#include "parallel/data/staging.h"
#include "parallel/data/update_rule.h"

namespace trireme {

// What one update hands to the parts of a rule.
struct UpdateStep {
  Stream& stream;
  Tensor grad_scale;
  double learning_rate;
  std::int64_t update;
};

// State of these names, all of one dtype.
inline std::vector<UpdateRule::State> states_of(std::span<const char* const> names, DType dtype) {
  std::vector<UpdateRule::State> states;
  for (const char* name : names) states.push_back({name, dtype});
  return states;
}

// Ranges as the kernels want them. State in bfloat16 is widened piece by piece, in pieces that
// a cache holds, and rounded back stochastically, so that small changes add up in the mean;
// published weights are rounded so too where that is asked for. Without either, the whole
// range is one piece.
class Windows {
 public:
  static constexpr std::size_t kMostStates = 2;

  struct Piece {
    Tensor value, master;  // as the ops want them: no master where the value is one
    Tensor grad;
    std::array<Tensor, kMostStates> state;
    Tensor weight() const { return master ? master : value; }  // in the accumulator dtype
  };
  // What a body writes, beside what it reads.
  enum class Writes : std::uint8_t { kState, kWeights, kBoth };

  explicit Windows(const OptimizerOptions& options) : options_(options) {}
  // Takes memory for a piece's state.
  void prepare(std::span<const UpdateRange> ranges, Arena& workspace);

  // The dtype that a rule's state is kept in.
  DType state_dtype(DType accumulator) const;

  // Calls body(piece) over the range. `states` names the state as UpdateRule::state() does.
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
