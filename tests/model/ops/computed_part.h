#pragma once
// Parts of attention: rows of a sequence dealt to ranks, and what the op computes of them.
#include <numeric>
#include <utility>

#include "model/ops/part_attention.h"
#include "tests/model/ops/attention_reference.h"

namespace trireme::test {

using ops::Heads;
using ops::PartAttention;

// Ascending rows of each sequence, as many of each.
using Rows = std::vector<std::vector<std::int64_t>>;

// How the rows of a sequence are dealt to ranks.
enum class Deal : std::uint8_t {
  kBlocks,    // rank r has the r-th block, and sees no key of later ones
  kBothEnds,  // 2 ranks chunks; rank r has the r-th from either end
  kAlternating,
  kShuffled,  // differently in each sequence
};
inline constexpr Deal kDeals[] = {Deal::kBlocks, Deal::kBothEnds, Deal::kAlternating,
                                  Deal::kShuffled};

// For each rank; `ranks` divides the sequence, twice for kBothEnds.
inline std::vector<Rows> dealt(Deal deal, const AttentionCase& x, std::int64_t ranks) {
  std::vector<Rows> all(ranks, Rows(x.batch));
  std::mt19937 random(3);
  const std::int64_t chunk = x.seq / (2 * ranks);
  for (std::int64_t b = 0; b < x.batch; ++b) {
    std::vector<std::int64_t> rank_of(x.seq);
    for (std::int64_t t = 0; t < x.seq; ++t) {
      if (deal == Deal::kBlocks) rank_of[t] = t * ranks / x.seq;
      if (deal == Deal::kBothEnds) rank_of[t] = std::min(t / chunk, 2 * ranks - 1 - t / chunk);
      if (deal == Deal::kAlternating || deal == Deal::kShuffled) rank_of[t] = t % ranks;
    }
    for (std::int64_t t = x.seq - 1; deal == Deal::kShuffled && t > 0; --t)
      std::swap(rank_of[t], rank_of[random() % (t + 1)]);
    for (std::int64_t t = 0; t < x.seq; ++t) all[rank_of[t]][b].push_back(t);
  }
  return all;
}

// Of all sequences, in their order.
inline std::vector<std::int64_t> tokens_of(const AttentionCase& x, const Rows& rows) {
  std::vector<std::int64_t> tokens;
  for (std::int64_t b = 0; b < x.batch; ++b)
    for (const std::int64_t row : rows[b]) tokens.push_back(b * x.seq + row);
  return tokens;
}

inline Rows all_rows(const AttentionCase& x) {
  Rows rows(x.batch, std::vector<std::int64_t>(x.seq));
  for (auto& of_sequence : rows) std::iota(of_sequence.begin(), of_sequence.end(), 0);
  return rows;
}

inline TokenSet set_of(const AttentionCase& x, const Rows& rows) {
  TokenSet set(x.tokens());
  for (const std::int64_t token : tokens_of(x, rows)) set[token] = true;
  return set;
}

// Of a [tokens, width] matrix, columns [first, first + count) of some rows.
inline Values taken(const Values& from, std::int64_t width, const std::vector<std::int64_t>& tokens,
                    std::int64_t first, std::int64_t count) {
  Values to;
  for (const std::int64_t token : tokens) {
    const auto row = from.begin() + token * width + first;
    to.insert(to.end(), row, row + count);
  }
  return to;
}

// The columns of a [tokens, heads.qkv()] matrix.
inline Values queries_of(const AttentionCase& x, const Values& qkv, const Rows& rows) {
  const Heads heads = x.shape().heads;
  return taken(qkv, heads.qkv(), tokens_of(x, rows), 0, heads.query());
}
inline Values keys_of(const AttentionCase& x, const Values& qkv, const Rows& rows) {
  const Heads heads = x.shape().heads;
  return taken(qkv, heads.qkv(), tokens_of(x, rows), heads.query(), heads.qkv() - heads.query());
}

inline Values as_values(const AttentionCase& x, const Rows& rows) {
  Values all;
  for (std::int64_t b = 0; b < x.batch; ++b) all.insert(all.end(), rows[b].begin(), rows[b].end());
  return all;
}

// Queries of some rows of every sequence with the keys of some.
struct ComputedPart {
  Stream& stream;
  AttentionCase x;
  std::int64_t queries, keys;
  bool has_key_rows;
  Held qkv, kv, rows, first_seen, key_rows, words, dout, out, lse, dq, dkv;

  // `key_rows` empty: all keys, in order.
  ComputedPart(Stream& on, const AttentionCase& how, DType dtype, const Values& qkv_values,
               const Rows& query_rows, const Rows& rows_of_keys = {})
      : ComputedPart(on, how, dtype, qkv_values, query_rows,
                     rows_of_keys.empty() ? all_rows(how) : rows_of_keys, !rows_of_keys.empty()) {}
  ComputedPart(Stream& on, const AttentionCase& how, DType dtype, const Values& qkv_values,
               const Rows& query_rows, const Rows& rows_of_keys, bool with_key_rows)
      : stream(on),
        x(how),
        queries(static_cast<std::int64_t>(query_rows[0].size())),
        keys(static_cast<std::int64_t>(rows_of_keys[0].size())),
        has_key_rows(with_key_rows),
        qkv(on, {how.batch * queries, how.shape().heads.qkv()}, dtype,
            taken(qkv_values, how.shape().heads.qkv(), tokens_of(how, query_rows), 0,
                  how.shape().heads.qkv())),
        kv(on, {how.batch * keys, 2 * how.kv_heads * how.width}, dtype,
           keys_of(how, qkv_values, rows_of_keys)),
        rows(on, {how.batch * queries}, DType::kI32, as_values(how, query_rows)),
        first_seen(on, {how.batch * queries}, DType::kI32,
                   taken(ComputedAttention::starts(how), 1, tokens_of(how, query_rows), 0, 1)),
        key_rows(on, {how.batch * keys}, DType::kI32, as_values(how, rows_of_keys)),
        words(on, {how.batch * queries}, DType::kI32,
              taken(ComputedAttention::words_of(how), 1, tokens_of(how, query_rows), 0, 1)),
        dout(on, {how.batch * queries, query()}, dtype,
             taken(uniform_values(how.tokens() * query(), 2, dtype), query(),
                   tokens_of(how, query_rows), 0, query())),
        out(on, {how.batch * queries, query()}, dtype),
        lse(on, {how.batch * queries, how.heads}, accumulator_of(dtype)),
        dq(on, {how.batch * queries, query()}, dtype),
        dkv(on, {how.batch * keys, 2 * how.kv_heads * how.width}, dtype) {}

  std::int64_t query() const { return x.heads * x.width; }
  AttentionShape shape() const {
    AttentionShape shape = x.shape();
    shape.seq = queries;
    shape.dropout.words = words;
    return shape;
  }
  PartAttention part() const {
    return {.keys = keys,
            .qkv = qkv,
            .kv = kv,
            .rows = rows,
            .first_seen = first_seen,
            .key_rows = has_key_rows ? Tensor(key_rows) : Tensor{}};
  }
  // In an arena of exactly the planned size.
  template <class Op>
  void planned(const Op& op) const {
    Tally tally;
    Stream planning(stream.device(), tally);
    Arena plan = Arena::unbounded(stream.device());
    op(planning, plan);
    Arena scratch(plan.peak(), stream.device());
    op(stream, scratch);
    stream.synchronize();
    EXPECT_EQ(scratch.used(), 0u);
    EXPECT_EQ(scratch.peak(), plan.peak());
  }
  void forward() const {
    planned([&](Stream& on, Arena& scratch) {
      part_attention(on, scratch, out, lse, part(), shape());
    });
  }
  // Given the results over all parts.
  void backward(Tensor of_out, Tensor of_lse) const { backward(of_out, of_lse, dq, dkv); }
  void backward(Tensor of_out, Tensor of_lse, Tensor to_dq, Tensor to_dkv) const {
    planned([&](Stream& on, Arena& scratch) {
      part_attention_backward(
          on, scratch, {.dq = to_dq, .dkv = to_dkv, .dout = dout, .out = of_out, .lse = of_lse},
          part(), shape());
    });
  }
};

}  // namespace trireme::test
