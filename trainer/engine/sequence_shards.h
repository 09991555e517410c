#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "data/token_batch.h"
#include "model/layers/micro_batch.h"
#include "model/tensor/arena.h"
#include "model/tensor/host_mirror.h"
#include "parallel/comm/communicator.h"
#include "trainer/engine/engine_spec.h"

namespace trireme {

// Shards the sequences of a step over a context group: holds what the host fills in, and makes what
// SequenceShard describes.
class SequenceShards {
 public:
  struct Size {
    int rank = 0, ranks = 1;  // of the context group
    ContextMethod method = ContextMethod::kAllGather;
    int ulysses = 1;          // adjacent ranks that exchange tokens for heads
    std::int64_t window = 0;  // of the model's layers with a sliding window; 0: none
    std::int64_t micro_batches = 1;
    std::int64_t sequences = 1;  // per micro-batch
    std::int64_t seq_len = 1;    // of a whole sequence
    bool dropout = false;        // TokenBatch has dropout_words
    bool divided = true;         // false: every rank has whole sequences

    int groups() const { return ranks / ulysses; }  // between which the method is used
    std::int64_t own_tokens() const { return sequences * seq_len / ranks; }   // of a micro-batch
    std::int64_t own_tokens_after() const { return own_tokens() * ulysses; }  // the exchange
  };
  // Of a rank of `context`.
  static Size size(const EngineSpec& spec, const Communicator& context);
  SequenceShards(const Stream& stream, Arena& data, const Size& size);

  // The host's view of the whole sequences of all micro-batches, if they are divided.
  data::TokenBatch whole();
  // Shards whole() in the first `micro_batches`, and copies this rank's tokens to `own`, sequences
  // of seq_len / ranks tokens; undivided sequences are those of `own`.
  void shard_batch(const data::TokenBatch& own, std::int64_t micro_batches);
  // Query-key pairs of the rank with most in a micro-batch over the mean, of the last
  // shard_batch(): how much longer attention takes than if all ranks had as many.
  double pairs_max_over_mean() const { return pairs_max_over_mean_; }
  // Queued.
  void upload(Stream& stream) const { tables_.upload(stream); }
  // Of a micro-batch, on the device.
  SequenceShard shard(int micro_batch) const;

  bool divided() const { return size_.divided; }
  std::int64_t whole_tokens() const { return tokens_; }  // of a micro-batch

  // losses [ranks, micro_batches * own_tokens()] in the order of whole(), for some micro-batches.
  std::vector<double> in_order(const std::vector<double>& losses) const;

 private:
  // For the method: rows, [groups, sequences, shard], and orders of whole sequences; for the
  // exchange of tokens for heads: orders and inputs of the tokens after it.
  enum Table : std::uint8_t {
    kRows,
    kGatheredOfWhole,
    kWholeOfGathered,
    kGatheredOfOwn,
    kOwnOfGathered,
    kStart,
    kWords,
    kTables
  };
  struct Places {
    std::array<std::int64_t, kTables> counts{};  // of a micro-batch; 0: not read
    std::array<std::int64_t, kTables> at{};
    std::int64_t all = 0;  // of a micro-batch
  };
  static Places places_of(const Size& size);
  std::span<std::int32_t> host(Table table, std::int64_t micro_batch) const;
  Tensor table(Table table, int micro_batch) const;
  void take_own(const data::TokenBatch& own, const data::TokenBatch& sequence,
                std::span<const std::int32_t> rows) const;
  void join_groups(std::span<const std::int32_t> rows, std::int64_t sequence);
  void order_sequences(std::int64_t micro_batch);
  void order_exchange(const data::TokenBatch& all, std::int64_t micro_batch);
  void find_readers(const data::TokenBatch& all, std::int64_t micro_batch);

  const Size size_;
  std::int64_t tokens_;                       // of a micro-batch's whole sequences
  std::vector<std::int32_t> whole_;           // TokenBatch::in
  std::vector<std::int32_t> rows_;            // [micro_batches, ranks, sequences, shard]
  std::vector<std::int32_t> rows_of_groups_;  // of a micro-batch: [groups, sequences, their shard]
  const Places places_;
  HostMirror tables_;  // [micro_batches, places_.all] I32
  double pairs_max_over_mean_ = 1;
  std::vector<std::uint8_t> reads_;  // [micro_batches, without a window or with, groups, groups]
};

}  // namespace trireme
