#include "parallel/pipeline/published.h"

#include <algorithm>

#include "model/base/error.h"

namespace trireme {
namespace {

using Kind = Action::Kind;

// Builder of one rank's list. Micro-batches are counted over all stages of the rank, in execution
// order: forwards through the first stage first, backwards through the last stage first.
class RankActions {
 public:
  RankActions(const PipelineShape& shape, int rank) : shape_(shape), rank_(rank) {}

  int count() const { return shape_.micro_batches * shape_.virtual_stages; }
  void forward(int k) { add(Kind::kForward, k, chunk(k)); }
  void backward(int k, Kind kind = Kind::kBackward) {
    add(kind, k, shape_.virtual_stages - 1 - chunk(k));
  }
  std::vector<Action> take() { return std::move(actions_); }

 private:
  // Groups of `ranks` micro-batches pass through the stages of a rank one stage after the other.
  int chunk(int k) const { return k / shape_.ranks % shape_.virtual_stages; }
  void add(Kind kind, int k, int chunk) {
    const int micro_batch = k / shape_.stages() * shape_.ranks + k % shape_.ranks;
    actions_.push_back({kind, chunk * shape_.ranks + rank_, micro_batch});
  }
  const PipelineShape& shape_;
  int rank_;
  std::vector<Action> actions_;
};

// `fill` appends the actions of a rank to its list.
template <class Fill>
Schedule make(const PipelineShape& shape, const Fill& fill) {
  require(shape.ranks >= 1 && shape.micro_batches >= 1 && shape.virtual_stages >= 1,
          "a pipeline of ", shape.ranks, " ranks with ", shape.virtual_stages, " stages each and ",
          shape.micro_batches, " micro-batches");
  Schedule schedule{shape.stages(), shape.micro_batches, {}};
  for (int rank = 0; rank < shape.ranks; ++rank) {
    RankActions actions(shape, rank);
    fill(actions, rank);
    schedule.ranks.push_back(actions.take());
  }
  return schedule;
}

// `warm_up` forwards, then one backward after each forward, then the remaining backwards.
void fill_one_forward_one_backward(RankActions& actions, int warm_up) {
  const int ahead = std::min(warm_up, actions.count());
  for (int k = 0; k < ahead; ++k) actions.forward(k);
  for (int k = ahead; k < actions.count(); ++k) {
    actions.forward(k);
    actions.backward(k - ahead);
  }
  for (int k = actions.count() - ahead; k < actions.count(); ++k) actions.backward(k);
}

}  // namespace

Schedule gpipe(const PipelineShape& shape) {
  return make(shape, [](RankActions& actions, int /*rank*/) {
    fill_one_forward_one_backward(actions, actions.count());
  });
}

Schedule one_forward_one_backward(const PipelineShape& shape) {
  return make(shape, [&](RankActions& actions, int rank) {
    fill_one_forward_one_backward(actions, shape.ranks - rank - 1);
  });
}

Schedule interleaved_one_forward_one_backward(const PipelineShape& shape) {
  if (shape.virtual_stages == 1) return one_forward_one_backward(shape);
  return make(shape, [&](RankActions& actions, int rank) {
    const int until_gradient = 2 * (shape.ranks - rank - 1);
    fill_one_forward_one_backward(actions,
                                  until_gradient + (shape.virtual_stages - 1) * shape.ranks);
  });
}

Schedule zero_bubble_h1(const PipelineShape& shape) {
  return make(shape, [&](RankActions& actions, int rank) {
    const int count = actions.count();
    const int ahead = std::min(shape.ranks - rank - 1, count);
    const auto backward = [&](int k) {
      actions.backward(k, Kind::kBackwardInput);
      if (k >= rank) actions.backward(k - rank, Kind::kBackwardWeight);
    };
    for (int k = 0; k < ahead; ++k) actions.forward(k);
    for (int k = ahead; k < count; ++k) {
      actions.forward(k);
      backward(k - ahead);
    }
    for (int k = count - ahead; k < count; ++k) backward(k);
    for (int k = std::max(count - rank, 0); k < count; ++k) {
      actions.backward(k, Kind::kBackwardWeight);
    }
  });
}

}  // namespace trireme
