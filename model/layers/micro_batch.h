#pragma once
#include <cstdint>
#include <span>

#include "model/tensor/tensor.h"

namespace trireme {

// What routers report of a micro-batch, if it is given: the forward of each layer with experts
// writes its row.
struct RouterSink {
  Tensor losses = {};  // [layers, ops::kRouterSums] F64: ops::router_losses
  Tensor counts = {};  // [layers, experts] F32: each expert's tokens are added
  explicit operator bool() const { return static_cast<bool>(losses); }
};

// Whether the queries of a rank see any key of another: [reader, holder], in host memory. Empty:
// supposed of all, on a planning stream.
struct ReadersOfRanks {
  std::span<const std::uint8_t> reads = {};
  std::int64_t ranks = 1;
  bool operator()(std::int64_t reader, std::int64_t holder) const {
    return reads.empty() || reads[static_cast<std::size_t>(reader * ranks + holder)] != 0;
  }
};

// The tokens of adjacent context ranks that exchange tokens for heads (UlyssesAttention): those of
// all of them, in ascending order of their rows, sequence by sequence.
struct HeadExchange {
  std::int64_t seq_len = 0;  // their tokens of a sequence; 0: none are exchanged
  // The order of gathered tokens, [ranks, sequences, shard], and that of these: the index in the
  // one of each token of the other, I32.
  Tensor gathered_of_own = {}, own_of_gathered = {};
  // MicroBatch's of these tokens.
  Tensor document_start = {}, window_start = {}, dropout_words = {};
};

// How context parallel ranks shard the sequences of a micro-batch: what their AttentionCore reads.
// Shards are equally long; a rank, or a group that exchanges tokens for heads, has its rows of
// every sequence, in ascending order. The micro-batch has the tokens of this rank's shard or, if
// only attention's work is divided, of whole sequences.
struct SequenceShard {
  std::int64_t seq_len = 0;  // of a whole sequence; 0: no sequence is sharded
  Tensor rows = {};  // [sequences shard] I32: row in its sequence of each token of the shard
  Tensor rows_of_ranks = {};  // [ranks, sequences shard] I32: the same of all ranks
  // The order of gathered tokens, [ranks, sequences shard], and that of whole sequences,
  // [sequences, seq_len]: the index in the one of each token of the other, I32.
  Tensor gathered_of_whole = {}, whole_of_gathered = {};
  ReadersOfRanks readers = {}, window_readers = {};
  HeadExchange heads = {};
};

// The inputs of a micro-batch on the device, sequence by sequence. Views: the memory must stay
// valid until its backward.
struct MicroBatch {
  std::int64_t sequences = 1, seq_len = 1;  // seq_len: this rank's tokens of a sequence
  Tensor ids = {};                          // [tokens] I32; used on the first stage
  Tensor targets = {};                      // [tokens] I32; used on the last stage; -1: no target
  Tensor positions = {};                    // [tokens] I32: position of the token in its document
  Tensor document_start = {};  // [tokens] I32: row at which its document starts in its sequence
  bool documents = true;       // false: every sequence is one document
  // [tokens] I32: first token that a layer with a sliding window sees; made by the stage.
  Tensor window_start = {};
  // [tokens] I32: random words of the tokens for dropout; empty: nothing is dropped.
  Tensor dropout_words = {};
  Tensor scale = {};         // [1] F64, empty: 1; scale of the tokens' losses for their gradients
  Tensor router_scale = {};  // the same of routers' losses
  RouterSink routers = {};
  SequenceShard shard = {};

  std::int64_t tokens() const { return sequences * seq_len; }
  std::int64_t whole_seq_len() const { return shard.seq_len > 0 ? shard.seq_len : seq_len; }
  // With the tokens that ranks have once they exchanged tokens for heads.
  MicroBatch after_exchange() const {
    MicroBatch after = *this;
    after.seq_len = shard.heads.seq_len;
    after.document_start = shard.heads.document_start;
    after.window_start = shard.heads.window_start;
    after.dropout_words = shard.heads.dropout_words;
    after.shard.heads = {};
    return after;
  }
  // [tokens] I32: row of each token in its sequence; empty: the micro-batch has whole sequences.
  Tensor rows() const { return shard.seq_len > seq_len ? shard.rows : Tensor{}; }
  // [tokens] I32: first row of its sequence that a token sees, in a layer with a window or without.
  Tensor first_seen(bool has_window) const { return has_window ? window_start : document_start; }
};

}  // namespace trireme
