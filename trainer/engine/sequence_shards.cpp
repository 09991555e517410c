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
          .ulysses = static_cast<int>(ulysses_ranks(spec.parallelism)),
          .window = spec.model.sliding_window,
          .micro_batches = spec.micro_batches,
          .sequences = spec.training.local_batch_size,
          .seq_len = spec.training.seq_len,
          .dropout = spec.training.dropout.any(),
          .divided = divides_sequences(spec)};
}

// Those that the method and the exchange read.
SequenceShards::Places SequenceShards::places_of(const Size& size) {
  const std::int64_t whole = size.sequences * size.seq_len, own = size.own_tokens_after();
  const bool is_shared = size.groups() > 1, exchanges = size.ulysses > 1;
  const bool is_ordered = is_shared && size.method == ContextMethod::kAllGather;
  Places places;
  places.counts[kRows] = is_shared ? whole : 0;
  places.counts[kGatheredOfWhole] = places.counts[kWholeOfGathered] = is_ordered ? whole : 0;
  places.counts[kGatheredOfOwn] = places.counts[kOwnOfGathered] = places.counts[kStart] =
      exchanges ? own : 0;
  places.counts[kWords] = exchanges && size.dropout ? own : 0;
  for (std::size_t i = 0; i < kTables; ++i) {
    places.at[i] = places.all;
    places.all += places.counts[i];
  }
  return places;
}

SequenceShards::SequenceShards(const Stream& stream, Arena& data, const Size& size)
    : size_(size),
      tokens_(size.sequences * size.seq_len),
      places_(places_of(size)),
      tables_(stream, data.take({size.micro_batches, places_.all}, DType::kI32)) {
  if (!stream.executes()) return;
  const std::int64_t arrays = data::TokenBatch::kArrays + (size.dropout ? 1 : 0);
  if (size.divided) whole_.resize(static_cast<std::size_t>(arrays * size.micro_batches * tokens_));
  rows_.resize(static_cast<std::size_t>(size.micro_batches * tokens_));
  rows_of_groups_.resize(static_cast<std::size_t>(tokens_));
  reads_.resize(static_cast<std::size_t>(size.micro_batches * 2 * size.groups() * size.groups()));
}

data::TokenBatch SequenceShards::whole() {
  return data::TokenBatch::in(whole_, size_.micro_batches * size_.sequences, size_.seq_len);
}

std::span<std::int32_t> SequenceShards::host(Table table, std::int64_t micro_batch) const {
  return {tables_.host().as<std::int32_t>() + micro_batch * places_.all + places_.at[table],
          static_cast<std::size_t>(places_.counts[table])};
}

Tensor SequenceShards::table(Table table, int micro_batch) const {
  const std::int64_t count = places_.counts[table];
  if (count == 0) return {};
  return tables_.tensor().slice(micro_batch * places_.all + places_.at[table], count);
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
        std::ranges::copy(rows_of(rank),
                          rows_.begin() + m * tokens_ + (rank * size_.sequences + s) * shard);
        pairs[static_cast<std::size_t>(rank)] +=
            query_key_pairs(rows_of(rank), sequence.document_start);
      }
      join_groups(rows, s);
      if (!size_.divided) continue;
      take_own(own.part(m * size_.sequences + s, 1), sequence, rows_of(size_.rank));
    }
    order_sequences(m);
    order_exchange(all, m);
    find_readers(all, m);
    most_pairs += std::ranges::max(pairs);
    all_pairs += std::accumulate(pairs.begin(), pairs.end(), std::int64_t{0});
  }
  pairs_max_over_mean_ = static_cast<double>(most_pairs * ranks) / static_cast<double>(all_pairs);
}

// The rows of a sequence, of the ranks of each group together.
void SequenceShards::join_groups(std::span<const std::int32_t> rows, std::int64_t sequence) {
  const std::int64_t shard = size_.seq_len / size_.groups();
  for (std::int64_t group = 0; group < size_.groups(); ++group) {
    const auto of_ranks =
        rows.subspan(static_cast<std::size_t>(group * shard), static_cast<std::size_t>(shard));
    const auto to = rows_of_groups_.begin() + (group * size_.sequences + sequence) * shard;
    const auto end = std::ranges::copy(of_ranks, to).out;
    if (size_.ulysses > 1) std::ranges::sort(to, end);
  }
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

void SequenceShards::order_sequences(std::int64_t micro_batch) {
  const auto rows = host(kRows, micro_batch);
  std::ranges::copy(std::span(rows_of_groups_).first(rows.size()), rows.begin());
  const auto gathered_of_whole = host(kGatheredOfWhole, micro_batch);
  const auto whole_of_gathered = host(kWholeOfGathered, micro_batch);
  const std::int64_t shard = size_.seq_len / size_.groups();
  for (std::size_t i = 0; i < whole_of_gathered.size(); ++i) {
    const std::int64_t sequence = static_cast<std::int64_t>(i) / shard % size_.sequences;
    const std::int64_t at = sequence * size_.seq_len + rows[i];
    whole_of_gathered[i] = static_cast<std::int32_t>(at);
    gathered_of_whole[static_cast<std::size_t>(at)] = static_cast<std::int32_t>(i);
  }
}

void SequenceShards::order_exchange(const data::TokenBatch& all, std::int64_t micro_batch) {
  if (size_.ulysses == 1) return;
  const std::int64_t shard = size_.seq_len / size_.ranks, after = shard * size_.ulysses;
  const std::int64_t own = size_.own_tokens_after(), group = size_.rank / size_.ulysses;
  const auto part = [&](const std::vector<std::int32_t>& rows, std::int64_t first) {
    return std::span(rows).subspan(static_cast<std::size_t>(first + group * own),
                                   static_cast<std::size_t>(own));
  };
  const auto gathered = part(rows_, micro_batch * tokens_), sorted = part(rows_of_groups_, 0);
  const auto gathered_of_own = host(kGatheredOfOwn, micro_batch);
  const auto own_of_gathered = host(kOwnOfGathered, micro_batch);
  for (std::int64_t i = 0; i < own; ++i) {
    const std::int64_t sequence = i / shard % size_.sequences;
    const auto of_sequence =
        sorted.subspan(static_cast<std::size_t>(sequence * after), static_cast<std::size_t>(after));
    const std::int32_t row = gathered[static_cast<std::size_t>(i)];
    const std::int64_t at =
        sequence * after + (std::ranges::lower_bound(of_sequence, row) - of_sequence.begin());
    own_of_gathered[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(at);
    gathered_of_own[static_cast<std::size_t>(at)] = static_cast<std::int32_t>(i);
  }
  const data::TokenBatch whole = all.part(micro_batch * size_.sequences, size_.sequences);
  const auto take = [&](std::span<std::int32_t> to, std::span<const std::int32_t> from) {
    for (std::size_t i = 0; i < to.size(); ++i) {
      const std::int64_t sequence = static_cast<std::int64_t>(i) / after;
      to[i] = from[static_cast<std::size_t>(sequence * size_.seq_len + sorted[i])];
    }
  };
  take(host(kStart, micro_batch), whole.document_start);
  take(host(kWords, micro_batch), whole.dropout_words);
}

void SequenceShards::find_readers(const data::TokenBatch& all, std::int64_t micro_batch) {
  if (size_.method != ContextMethod::kRing) return;
  const std::int64_t groups = size_.groups(), shard = size_.seq_len / groups;
  std::uint8_t* const reads = reads_.data() + micro_batch * 2 * groups * groups;
  std::fill_n(reads, 2 * groups * groups, std::uint8_t{0});
  std::vector<std::int64_t> owner(static_cast<std::size_t>(size_.seq_len));
  std::vector<std::int64_t> last(static_cast<std::size_t>(groups));  // row of each group up to now
  for (std::int64_t s = 0; s < size_.sequences; ++s) {
    for (std::int64_t group = 0; group < groups; ++group) {
      const std::int32_t* const rows =
          rows_of_groups_.data() + (group * size_.sequences + s) * shard;
      for (std::int64_t i = 0; i < shard; ++i) owner[static_cast<std::size_t>(rows[i])] = group;
    }
    const auto starts = all.part(micro_batch * size_.sequences + s, 1).document_start;
    std::ranges::fill(last, -1);
    for (std::int64_t row = 0; row < size_.seq_len; ++row) {
      const std::int64_t reader = owner[static_cast<std::size_t>(row)];
      last[static_cast<std::size_t>(reader)] = row;
      const std::int64_t start = starts[static_cast<std::size_t>(row)];
      const std::int64_t in_window =
          size_.window > 0 ? std::max(start, row - size_.window + 1) : start;
      for (std::int64_t holder = 0; holder < groups; ++holder) {
        const std::int64_t newest = last[static_cast<std::size_t>(holder)];
        reads[reader * groups + holder] |= newest >= start;
        reads[(groups + reader) * groups + holder] |= newest >= in_window;
      }
    }
  }
}

SequenceShard SequenceShards::shard(int micro_batch) const {
  const std::int64_t groups = size_.groups();
  const auto readers = [&](std::int64_t has_window) {
    if (reads_.empty() || size_.method != ContextMethod::kRing)
      return ReadersOfRanks{.ranks = groups};
    const std::span all(reads_);
    return ReadersOfRanks{
        all.subspan(static_cast<std::size_t>((2 * micro_batch + has_window) * groups * groups),
                    static_cast<std::size_t>(groups * groups)),
        groups};
  };
  SequenceShard shard{.seq_len = size_.seq_len,
                      .gathered_of_whole = table(kGatheredOfWhole, micro_batch),
                      .whole_of_gathered = table(kWholeOfGathered, micro_batch),
                      .readers = readers(0),
                      .window_readers = readers(1)};
  if (const Tensor rows = table(kRows, micro_batch)) {
    shard.rows_of_ranks = rows.reshaped({groups, size_.own_tokens_after()});
    shard.rows =
        rows.slice(size_.rank / size_.ulysses * size_.own_tokens_after(), size_.own_tokens_after());
  }
  if (size_.ulysses > 1) {
    shard.heads = {.seq_len = size_.seq_len / groups,
                   .gathered_of_own = table(kGatheredOfOwn, micro_batch),
                   .own_of_gathered = table(kOwnOfGathered, micro_batch),
                   .document_start = table(kStart, micro_batch),
                   .dropout_words = table(kWords, micro_batch)};
  }
  return shard;
}

std::vector<double> SequenceShards::in_order(const std::vector<double>& losses) const {
  const std::int64_t shard = size_.seq_len / size_.ranks, own = size_.own_tokens();
  const std::int64_t of_rank = std::ssize(losses) / size_.ranks;
  std::vector<double> ordered(losses.size());
  for (std::int64_t i = 0; i < std::ssize(losses); ++i) {
    const std::int64_t rank = i / of_rank, m = i % of_rank / own, at = i % own;
    const std::int64_t row = rows_[static_cast<std::size_t>(m * tokens_ + rank * own + at)];
    ordered[static_cast<std::size_t>(m * tokens_ + at / shard * size_.seq_len + row)] =
        losses[static_cast<std::size_t>(i)];
  }
  return ordered;
}

}  // namespace trireme
