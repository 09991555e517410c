#pragma once
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace trireme {

// The work of a rank on one micro-batch in one stage. Written as in PyTorch's schedule files:
// stage, letter, micro-batch, as in 2F0.
struct Action {
  enum class Kind : std::uint8_t {
    kForward,         // F
    kBackward,        // B: both halves below
    kBackwardInput,   // I: gradient of the stage's input
    kBackwardWeight,  // W: gradients of the weights
  };
  Kind kind = Kind::kForward;
  int stage = 0;  // index over all ranks, in model order
  int micro_batch = 0;
  bool operator==(const Action&) const = default;

  // Whether it computes the gradient that the previous stage needs.
  bool makes_input_gradient() const {
    return kind == Kind::kBackward || kind == Kind::kBackwardInput;
  }
  // Whether it is the last reader of the saved tensors of the forward.
  bool is_last_of_micro_batch() const {
    return kind == Kind::kBackward || kind == Kind::kBackwardWeight;
  }
};
char letter_of(Action::Kind kind);
std::ostream& operator<<(std::ostream& out, const Action& action);

// The actions of each rank of a pipeline, in order. A schedule is only lists of actions: it can be
// printed, compared, checked and simulated without execution. Transfers are implicit: a stage's
// output is sent when its action completes, activations to the rank of the next stage, gradients to
// that of the previous stage.
struct Schedule {
  int stages = 0;  // over all ranks
  int micro_batches = 0;
  std::vector<std::vector<Action>> ranks;
  bool operator==(const Schedule&) const = default;
};

// The schedule without its backwards, for evaluation.
Schedule forward_only(const Schedule& schedule);

// Whether weight gradients are computed apart from the input gradients.
bool defers_weight_gradients(const Schedule& schedule);

// The rank of each stage; -1 if no list contains it.
std::vector<int> ranks_of_stages(const Schedule& schedule);

// The stages of a rank, ascending.
std::vector<int> stages_of_rank(const Schedule& schedule, int rank);

}  // namespace trireme
