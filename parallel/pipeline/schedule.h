#pragma once
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace trireme {

// An index or a count of a schedule, none of which is negative.
inline std::size_t to_size(int n) {
  return static_cast<std::size_t>(n);
}

// What a rank does with one micro-batch in one stage. Written as in PyTorch's
// schedule files: stage, letter, micro-batch, such as 2F0.
struct Action {
  enum class Kind : std::uint8_t {
    kForward,         // F
    kBackward,        // B: both halves below
    kBackwardInput,   // I: the gradient of the stage's input
    kBackwardWeight,  // W: the gradients of its weights
  };
  Kind kind = Kind::kForward;
  int stage = 0;  // counted along the model, over all ranks
  int micro_batch = 0;
  bool operator==(const Action&) const = default;

  // Whether it makes the gradient that the previous stage waits for.
  bool makes_input_gradient() const {
    return kind == Kind::kBackward || kind == Kind::kBackwardInput;
  }
  // Whether it is the last that reads what the forward has kept.
  bool is_last_of_micro_batch() const {
    return kind == Kind::kBackward || kind == Kind::kBackwardWeight;
  }
};
char letter_of(Action::Kind kind);
std::ostream& operator<<(std::ostream& out, const Action& action);

// What each rank of a pipeline does, in order. A schedule is lists of actions and
// nothing more: it can be written down, compared, checked and timed without running
// anything. Transfers are no actions. A stage's output is sent when its action is
// done: activations to the rank of the next stage, gradients to that of the previous.
struct Schedule {
  int stages = 0;  // over all ranks
  int micro_batches = 0;
  std::vector<std::vector<Action>> ranks;
  bool operator==(const Schedule&) const = default;
};

// The same without its backwards, for evaluation.
Schedule forward_only(const Schedule& schedule);

// The rank whose list names a stage, for each stage; -1 where none does.
std::vector<int> ranks_of_stages(const Schedule& schedule);

// The stages in a rank's list, ascending.
std::vector<int> stages_of_rank(const Schedule& schedule, int rank);

}  // namespace trireme
