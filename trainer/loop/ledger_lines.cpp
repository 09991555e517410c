#include "trainer/config/batch_size.h"
#include "trainer/loop/computation.h"
#include "trainer/loop/train_run.h"

namespace trireme {

LedgerBegin TrainRun::ledger_begin(const char* why) const {
  return {.why = why,
          .incarnation = folder_.incarnation,
          .after = progress_.step,
          .weights = progress_.weights,
          .skip = config_.data.skip,
          .data = train_data_.fingerprint(),
          .computation = computation_of(config_, stream_.device(), threads_)};
}

LedgerStep TrainRun::ledger_step(double rate, const Engine::StepResult& result) const {
  const std::int64_t sequences = sequences_of_step(config_.training, progress_.step + 1);
  const data::SampleRange samples = progress_.next(static_cast<std::uint64_t>(sequences));
  return {.step = progress_.step + 1,
          .incarnation = folder_.incarnation,
          .samples = samples,
          .left_out = progress_.left_out.inside({progress_.end(), samples.end}).ranges(),
          .sequences = sequences,
          .tokens = sequences * config_.training.seq_len,
          .hash = batch_hash_,
          .loss = result.loss,
          .grad_norm = result.grad_norm,
          .lr = rate,
          .attempts = attempts_,
          .products_chosen = false};
}

}  // namespace trireme
