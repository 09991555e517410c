#include "trainer/engine/data_feed.h"

#include <algorithm>
#include <numbers>

#include "data/token_batch.h"
#include "model/tensor/host_tensor.h"
#include "trainer/config/batch_size.h"

namespace trireme {
namespace {

std::vector<data::SourceSpec> specs(const std::vector<DataSource>& sources, double first,
                                    double last) {
  std::vector<data::SourceSpec> specs;
  for (const DataSource& source : sources) {
    specs.push_back({.prefix = source.path, .weight = source.weight, .first = first, .last = last});
  }
  return specs;
}

data::SequenceSpec sequence(const RunConfig& config, bool shuffle) {
  return {.seq_len = config.training.seq_len,
          .document_mask = config.data.document_mask,
          .seed = static_cast<std::uint64_t>(config.job.seed),
          .shuffle = shuffle,
          .megatron_samples = {},
          .vocab_size = config.model.vocab_size};
}

}  // namespace

std::uint64_t first_sample_of_step(const RunConfig& config, std::int64_t step) {
  return static_cast<std::uint64_t>(sequences_before_step(config.training, step));
}

data::SampleSource open_training_data(const RunConfig& config) {
  const double end = 1 - config.data.split;
  std::vector<data::MixtureChange> changes;
  const std::vector<DataSource>* train = &config.data.train;
  for (const DataStage& stage : config.data.stages) {
    if (stage.train.empty() && stage.seq_len == 0) continue;
    if (!stage.train.empty()) train = &stage.train;
    changes.push_back(
        {first_sample_of_step(config, stage.from_step), specs(*train, 0, end), stage.seq_len});
  }
  data::SequenceSpec spec = sequence(config, true);
  if (config.data.order == "megatron") {
    spec.megatron_samples = static_cast<std::uint64_t>(order_samples(config));
  }
  return {specs(config.data.train, 0, end), spec, std::move(changes)};
}

std::optional<data::SampleSource> open_validation_data(const RunConfig& config,
                                                       std::int64_t stride) {
  const DataConfig& data = config.data;
  data::SequenceSpec spec = sequence(config, false);
  spec.stride = stride;
  if (!data.validation.empty()) return data::SampleSource(specs(data.validation, 0, 1), spec);
  if (data.split <= 0) return std::nullopt;
  return data::SampleSource(specs(data.train, 1 - data.split, 1), spec);
}

Filled fill_batch(const data::TokenBatch& batch, const data::SampleSource& source,
                  std::uint64_t first, std::uint64_t end, const data::LeftOut& left_out) {
  Filled filled;
  for (std::int64_t i = 0; i < batch.sequences; ++i) {
    const data::TokenBatch row = batch.part(i, 1);
    const bool counts = first + i < end;
    const std::uint64_t sample = left_out.sample(counts ? first + i : first);
    const std::int64_t valid = source.fill(sample, row);
    if (counts) {
      filled.valid += valid;
      filled.hash += data::sample_hash(sample, row.ids, row.targets);
    } else {
      std::ranges::fill(row.targets, -1);
    }
  }
  return filled;
}

Filled fill_step(Engine& engine, const RankGroups& groups, std::uint64_t first,
                 const FillMicroBatch& fill) {
  const std::int64_t size = engine.spec().training.local_batch_size;
  const MicroBatches of_step = engine.micro_batches();
  Filled sum;
  for (std::int64_t own = 0; own < of_step.of_each; ++own) {
    const std::int64_t number = of_step.number(engine.data_rank(), own);
    const data::TokenBatch part = engine.batch().part(own * size, size);
    const Filled filled = fill(part, first + number * size);
    data::draw_dropout_words(part, engine.spec().job.seed, first + number * size);
    sum.valid += filled.valid;
    sum.hash += filled.hash;
  }
  // In halves, whose sums over ranks are exact in float64.
  double sums[] = {static_cast<double>(sum.valid), static_cast<double>(sum.hash & UINT32_MAX),
                   static_cast<double>(sum.hash >> 32)};
  Stream stream;
  groups.data->all_reduce(stream, host_tensor(std::span(sums)), Reduce::kSum);
  return {
      .valid = static_cast<std::int64_t>(sums[0]),
      .hash = static_cast<std::uint64_t>(sums[1]) + (static_cast<std::uint64_t>(sums[2]) << 32)};
}

Filled fill_step(Engine& engine, const RankGroups& groups, const data::SampleSource& source,
                 std::uint64_t first, std::uint64_t end, const data::LeftOut& left_out) {
  return fill_step(engine, groups, first, [&](const data::TokenBatch& batch, std::uint64_t sample) {
    return fill_batch(batch, source, sample, end, left_out);
  });
}

Evaluation evaluate(const data::SampleSource& source, std::uint64_t samples,
                    const Evaluator& evaluator) {
  const std::uint64_t end = std::min(samples, source.samples_per_epoch());
  Evaluation result;
  double sum = 0;
  for (std::uint64_t first = 0; first < end; first += evaluator.samples) {
    result.valid_tokens += evaluator.fill(first, end);
    sum += evaluator.summed_loss();
  }
  result.loss = sum / static_cast<double>(std::max<std::int64_t>(result.valid_tokens, 1));
  return result;
}

std::optional<double> bits_per_byte(double loss, const data::SampleSource& source) {
  const double bytes = source.bytes_per_token();
  if (bytes <= 0) return std::nullopt;
  return loss / std::numbers::ln2 / bytes;
}

}  // namespace trireme
