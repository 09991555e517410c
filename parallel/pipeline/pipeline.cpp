#include "parallel/pipeline/pipeline.h"

namespace trireme {

Pipeline::Pipeline(const Stage& stage, Shape boundary, Links links, std::deque<Arena>& keeps,
                   Arena& scratch)
    : stage_(stage),
      boundary_(boundary),
      links_(links),
      keeps_(keeps),
      scratch_(scratch),
      saved_(keeps.size()) {}

Tensor Pipeline::receive(Stream& stream, Communicator& from, Arena& into, int rank) const {
  const Tensor tensor = into.take(boundary_, stage_.compute());
  from.receive(stream, tensor, rank);
  return tensor;
}

void Pipeline::run(Stream& stream, const Schedule& schedule, const Load& load,
                   const OnLoss& on_loss) {
  Communicator& down = links_.down;
  Communicator& up = links_.up;
  for (const Action& action : schedule) {
    const std::size_t slot = static_cast<std::size_t>(action.micro_batch) % keeps_.size();
    Run run{stream, keeps_[slot], scratch_};
    const Arena::Frame frame(scratch_);
    if (action.kind == Action::Kind::kForward) {
      run.keep.reset();
      Stage::Input input = load(action.micro_batch);
      if (!stage_.is_first()) input.x = receive(stream, down, run.keep, down.rank() - 1);
      const Tensor out = stage_.forward(run, input, saved_[slot]);
      if (stage_.is_last()) {
        on_loss(action.micro_batch, out);
      } else {
        down.send(stream, out, down.rank() + 1);
      }
    } else {
      Tensor dy;
      if (!stage_.is_last()) dy = receive(stream, up, run.keep, up.rank() + 1);
      const Tensor dx = stage_.backward(run, dy, saved_[slot]);
      if (!stage_.is_first()) up.send(stream, dx, up.rank() - 1);
    }
  }
}

void Pipeline::evaluate(Stream& stream, int micro_batches, const Load& load,
                        const OnLoss& on_loss) {
  Communicator& down = links_.down;
  for (int m = 0; m < micro_batches; ++m) {
    Run run{stream, keeps_.front(), scratch_};
    run.keep.reset();
    Stage::Input input = load(m);
    if (!stage_.is_first()) input.x = receive(stream, down, run.keep, down.rank() - 1);
    const Tensor out = stage_.evaluate(run, input);
    if (stage_.is_last()) {
      on_loss(m, out);
    } else {
      down.send(stream, out, down.rank() + 1);
    }
  }
}

}  // namespace trireme
