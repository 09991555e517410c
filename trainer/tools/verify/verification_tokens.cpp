// Whose tokens of sharded sequences are wrong.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "model/tensor/host_tensor.h"
#include "parallel/context/row_shards.h"
#include "trainer/tools/verify/verification.h"

namespace trireme::verify {
namespace {

constexpr std::int64_t kMostTokens = std::int64_t{1} << 22;  // of a step

// Of tokens with one rank's roundings or another's.
constexpr double kTokenRounding = 1e-4;

}  // namespace

// [samples of a step, seq_len], on all ranks, of the batch and weights that the subject has.
std::vector<double> Verification::token_losses(const Subject& subject) const {
  const TrainingConfig& training = of_.subject.training;
  std::vector<double> all(static_cast<std::size_t>(training.global_batch_size * training.seq_len));
  if (subject.takes_part()) {
    Engine& engine = subject.engine();
    const std::vector<double> own = engine.token_losses();
    const RankGroups& groups = subject.groups();
    const bool counts = groups.tensor->rank() == 0 && groups.context->rank() == 0;
    const std::int64_t each = training.local_batch_size * training.seq_len;
    for (std::int64_t m = 0; counts && m < std::ssize(own) / each; ++m) {
      const std::int64_t number = engine.micro_batches().number(engine.data_rank(), m);
      std::copy_n(own.begin() + m * each, each, all.begin() + number * each);
    }
  }
  Stream stream;
  ranks_->all_reduce(stream, host_tensor(std::span(all)), Reduce::kSum);
  return all;
}

// ", only in tokens of context rank 1" if those of other context ranks are right; of the batch and
// weights that both layouts have.
std::string Verification::on_context_ranks(std::int64_t step) const {
  const TrainingConfig& training = of_.subject.training;
  const std::int64_t seq_len = training.seq_len, samples = training.global_batch_size;
  if (!divides_sequences(of_.subject) || samples * seq_len > kMostTokens) return "";
  const std::vector<double> values = token_losses(subject_), expected = token_losses(reference_);
  const auto ranks = static_cast<int>(of_.subject.parallelism.context);
  const double tolerance = std::max(tolerances_.loss, kTokenRounding);
  const data::SequenceBuffer row(seq_len);
  std::vector<std::int32_t> rows(static_cast<std::size_t>(seq_len));
  std::set<std::int64_t> wrong;
  for (std::int64_t sample = 0; sample < samples; ++sample) {
    samples_.fill_part(row.batch(), samples_.first_of(step) + static_cast<std::uint64_t>(sample));
    shard_rows(rows, row.batch().document_start, ranks);
    for (std::int64_t i = 0; i < seq_len; ++i) {
      const auto token =
          static_cast<std::size_t>(sample * seq_len + rows[static_cast<std::size_t>(i)]);
      const double off = std::fabs(values[token] - expected[token]);
      if (!(off <= tolerance * std::fabs(expected[token]))) wrong.insert(i * ranks / seq_len);
    }
  }
  if (wrong.empty() || std::ssize(wrong) == ranks) return "";
  return fmt::format(", only in tokens of context rank{} {}", wrong.size() == 1 ? "" : "s",
                     fmt::join(wrong, ", "));
}

}  // namespace trireme::verify
