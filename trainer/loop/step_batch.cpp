#include "trainer/loop/step_batch.h"

#include "model/tensor/host_tensor.h"

namespace trireme {

Filled fill_step(Engine& engine, const RankGroups& groups, std::uint64_t first,
                 const FillPart& fill) {
  const std::int64_t size = engine.spec().micro_batch;
  const MicroBatches of_step = engine.micro_batches();
  Filled own_part;
  for (std::int64_t own = 0; own < of_step.of_each; ++own) {
    const std::int64_t number = of_step.number(engine.data_rank(), own);
    const Filled filled = fill(engine.batch().part(own * size, size),
                               first + static_cast<std::uint64_t>(number * size));
    own_part.valid += filled.valid;
    own_part.hash += filled.hash;
  }
  // In halves, whose sums over ranks a float64 holds exactly.
  double sums[] = {static_cast<double>(own_part.valid),
                   static_cast<double>(own_part.hash & UINT32_MAX),
                   static_cast<double>(own_part.hash >> 32)};
  Stream stream;
  groups.data->all_reduce(stream, host_tensor(std::span(sums)), Reduce::kSum);
  return {
      .valid = static_cast<std::int64_t>(sums[0]),
      .hash = static_cast<std::uint64_t>(sums[1]) + (static_cast<std::uint64_t>(sums[2]) << 32)};
}

Filled fill_step(Engine& engine, const RankGroups& groups, const data::SampleSource& source,
                 std::uint64_t first, std::uint64_t end, const data::LeftOut& left_out) {
  return fill_step(engine, groups, first, [&](const TokenBatch& part, std::uint64_t sample) {
    return fill_batch(part, source, sample, end, left_out);
  });
}

}  // namespace trireme
