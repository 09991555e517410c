#include "trainer/engine/sequence_shards.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "parallel/context/row_shards.h"

namespace trireme {

SequenceShards::Size SequenceShards::size(const EngineSpec& spec, const Communicator& context) {
  return {.rank = context.rank(),
          .ranks = context.size(),
          .method = spec.parallelism.context_method,
          .window = spec.model.sliding_window,
          .micro_batches = spec.micro_batches,
          .sequences = spec.training.local_batch_size,
          .seq_len = spec.training.seq_len,
          .dropout = spec.training.dropout.any(),
          .divided = divides_sequences(spec)};
}

// Those that the method reads.
std::int64_t SequenceShards::tables_of(const Size& size) {
  switch (size.method) {
    case ContextMethod::kRing:
      return kRows + 1;
    case ContextMethod::kAllGather:
      return kWholeOfGathered + 1;
    case ContextMethod::kUlysses:
      return size.dropout ? kWords + 1 : kStart + 1;
  }
  return 0;
}

SequenceShards::SequenceShards(const Stream& stream, Arena& data, const Size& size)
    : size_(size),
      tokens_(size.sequences * size.seq_len),
      tables_(stream, data.take({tables_of(size), size.micro_batches, tokens_}, DType::kI32)) {
  if (!stream.executes()) return;
  const std::int64_t arrays = data::TokenBatch::kArrays + (size.dropout ? 1 : 0);
  if (size.divided) whole_.resize(static_cast<std::size_t>(arrays * size.micro_batches * tokens_));
  reads_.resize(static_cast<std::size_t>(size.micro_batches * 2 * size.ranks * size.ranks));
}

data::TokenBatch SequenceShards::whole() {
  return data::TokenBatch::in(whole_, size_.micro_batches * size_.sequences, size_.seq_len);
}

std::int32_t* SequenceShards::host(Table table, std::int64_t micro_batch) const {
  return tables_.host().as<std::int32_t>() + (table * size_.micro_batches + micro_batch) * tokens_;
}

Tensor SequenceShards::table(Table table, int micro_batch) const {
  if (table >= tables_of(size_)) return {};
  return tables_.tensor().slice((table * size_.micro_batches + micro_batch) * tokens_, tokens_);
}

void SequenceShards::shard_batch(const data::TokenBatch& own, std::int64_t micro_batches) {
  const data::TokenBatch all = size_.divided ? whole() : own;
  const std::int64_t ranks = size_.ranks, shard = size_.seq_len / ranks;
  std::vector<std::int32_t> rows(static_cast<std::size_t>(size_.seq_len));  // [ranks, shard]
  const auto rows_of = [&](std::int64_t rank) {
    return std::span(rows).subspan(static_cast<std::size_t>(rank * shard),
                                   static_cast<std::size_t>(shard));
  };
  std::int64_t all_pairs = 0, most_pairs = 0;
  for (std::int64_t m = 0; m < micro_batches; ++m) {
    std::vector<std::int64_t> pairs(static_cast<std::size_t>(ranks));  // by rank
    for (std::int64_t s = 0; s < size_.sequences; ++s) {
      const data::TokenBatch sequence = all.part(m * size_.sequences + s, 1);
      shard_rows(rows, sequence.document_start, size_.ranks);
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        std::ranges::copy(rows_of(rank), host(kRows, m) + (rank * size_.sequences + s) * shard);
        pairs[static_cast<std::size_t>(rank)] +=
            query_key_pairs(rows_of(rank), sequence.document_start);
      }
      if (!size_.divided) continue;
      take_own(own.part(m * size_.sequences + s, 1), sequence, rows_of(size_.rank));
    }
    order_tokens(all, m);
    find_readers(all, m);
    most_pairs += std::ranges::max(pairs);
    all_pairs += std::accumulate(pairs.begin(), pairs.end(), std::int64_t{0});
  }
  pairs_max_over_mean_ = static_cast<double>(most_pairs * ranks) / static_cast<double>(all_pairs);
}

void SequenceShards::take_own(const data::TokenBatch& own, const data::TokenBatch& sequence,
                              std::span<const std::int32_t> rows) const {
  const auto take = [&](std::span<std::int32_t> to, std::span<const std::int32_t> from) {
    std::transform(rows.begin(), rows.end(), to.begin(),
                   [&](std::int32_t row) { return from[static_cast<std::size_t>(row)]; });
  };
  take(own.ids, sequence.ids);
  take(own.targets, sequence.targets);
  take(own.positions, sequence.positions);
  take(own.document_start, sequence.document_start);
  if (size_.dropout) take(own.dropout_words, sequence.dropout_words);
}

void SequenceShards::order_tokens(const data::TokenBatch& all, std::int64_t micro_batch) {
  if (tables_of(size_) <= kWholeOfGathered) return;
  const std::int64_t shard = size_.seq_len / size_.ranks;
  const std::int32_t* const rows = host(kRows, micro_batch);
  std::int32_t* const gathered_of_whole = host(kGatheredOfWhole, micro_batch);
  std::int32_t* const whole_of_gathered = host(kWholeOfGathered, micro_batch);
  for (std::int64_t i = 0; i < tokens_; ++i) {
    const std::int64_t sequence = i / shard % size_.sequences;
    const std::int64_t at = sequence * size_.seq_len + rows[i];
    whole_of_gathered[i] = static_cast<std::int32_t>(at);
    gathered_of_whole[at] = static_cast<std::int32_t>(i);
  }
  if (size_.method != ContextMethod::kUlysses) return;
  const data::TokenBatch whole = all.part(micro_batch * size_.sequences, size_.sequences);
  std::ranges::copy(whole.document_start, host(kStart, micro_batch));
  if (size_.dropout) std::ranges::copy(whole.dropout_words, host(kWords, micro_batch));
}

void SequenceShards::find_readers(const data::TokenBatch& all, std::int64_t micro_batch) {
  if (size_.method != ContextMethod::kRing) return;
  const std::int64_t ranks = size_.ranks, shard = size_.seq_len / ranks;
  std::uint8_t* const reads = reads_.data() + micro_batch * 2 * ranks * ranks;
  std::fill_n(reads, 2 * ranks * ranks, std::uint8_t{0});
  std::vector<std::int64_t> owner(static_cast<std::size_t>(size_.seq_len));
  std::vector<std::int64_t> last(static_cast<std::size_t>(ranks));  // row of each rank up to now
  for (std::int64_t s = 0; s < size_.sequences; ++s) {
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const std::int32_t* const rows =
          host(kRows, micro_batch) + (rank * size_.sequences + s) * shard;
      for (std::int64_t i = 0; i < shard; ++i) owner[static_cast<std::size_t>(rows[i])] = rank;
    }
    const auto starts = all.part(micro_batch * size_.sequences + s, 1).document_start;
    std::ranges::fill(last, -1);
    for (std::int64_t row = 0; row < size_.seq_len; ++row) {
      const std::int64_t reader = owner[static_cast<std::size_t>(row)];
      last[static_cast<std::size_t>(reader)] = row;
      const std::int64_t start = starts[static_cast<std::size_t>(row)];
      const std::int64_t in_window =
          size_.window > 0 ? std::max(start, row - size_.window + 1) : start;
      for (std::int64_t holder = 0; holder < ranks; ++holder) {
        const std::int64_t newest = last[static_cast<std::size_t>(holder)];
        reads[reader * ranks + holder] |= newest >= start;
        reads[(ranks + reader) * ranks + holder] |= newest >= in_window;
      }
    }
  }
}

SequenceShard SequenceShards::shard(int micro_batch) const {
  const std::int64_t own = size_.own_tokens(), pairs = std::int64_t{size_.ranks} * size_.ranks;
  const Tensor rows = table(kRows, micro_batch).reshaped({size_.ranks, own});
  const auto readers = [&](std::int64_t has_window) {
    if (reads_.empty() || size_.method != ContextMethod::kRing)
      return ReadersOfRanks{.ranks = size_.ranks};
    const std::span all(reads_);
    return ReadersOfRanks{
        all.subspan(static_cast<std::size_t>((2 * micro_batch + has_window) * pairs),
                    static_cast<std::size_t>(pairs)),
        size_.ranks};
  };
  return {.seq_len = size_.seq_len,
          .rows = rows.slice(size_.rank * own, own),
          .rows_of_ranks = rows,
          .gathered_of_whole = table(kGatheredOfWhole, micro_batch),
          .whole_of_gathered = table(kWholeOfGathered, micro_batch),
          .document_start = table(kStart, micro_batch),
          .window_start = {},
          .dropout_words = table(kWords, micro_batch),
          .readers = readers(0),
          .window_readers = readers(1)};
}

std::vector<double> SequenceShards::in_order(const std::vector<double>& losses) const {
  const std::int64_t shard = size_.seq_len / size_.ranks, own = size_.own_tokens();
  const std::int64_t of_rank = std::ssize(losses) / size_.ranks;
  std::vector<double> ordered(losses.size());
  for (std::int64_t i = 0; i < std::ssize(losses); ++i) {
    const std::int64_t rank = i / of_rank, m = i % of_rank / own, at = i % own;
    const std::int64_t row = host(kRows, m)[rank * own + at];
    ordered[static_cast<std::size_t>(m * tokens_ + at / shard * size_.seq_len + row)] =
        losses[static_cast<std::size_t>(i)];
  }
  return ordered;
}

}  // namespace trireme
