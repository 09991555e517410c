#pragma once
// Cases of attention, what whole matrices in float64 make of them, and what the op does. For its
// tests and those of its parts.
#include <random>

#include "model/base/philox.h"
#include "model/ops/attention.h"
#include "tests/model/ops/op_test.h"

namespace trireme::test {

using ops::AttentionShape;
using ops::Dropout;

inline constexpr std::int64_t kFirstHead = 2;

struct AttentionCase {
  std::int64_t batch, seq, heads, kv_heads, width;
  std::int64_t document;    // length of a document; 0 for one as long as the sequence
  std::int64_t window = 0;  // 0 for none
  double soft_cap = 0;      // 0 for none
  double dropout = 0;
  AttentionShape shape() const {
    AttentionShape s;
    s.batch = batch, s.seq = seq;
    s.heads = {heads, kv_heads, width};
    s.scale = 1 / std::sqrt(static_cast<double>(width));
    s.masked = document != 0 || window != 0;
    s.window = window;
    s.soft_cap = soft_cap;
    s.dropout = {.rate = dropout, .key = random_key(1, "attention")};
    s.first_head = kFirstHead;
    return s;
  }
  std::int64_t tokens() const { return batch * seq; }
  std::uint32_t word(std::int64_t token) const {
    return philox(7, static_cast<std::uint64_t>(token))[0];
  }
  // By the definition in ops/attention.h; `key` counts in the sequence.
  double factor(std::int64_t token, std::int64_t head, std::int64_t key) const {
    if (dropout == 0) return 1;
    const Dropout how = shape().dropout;
    const auto drawn =
        philox(how.key,
               static_cast<std::uint64_t>((kFirstHead + head) << 32 | (key / 32 * 4 + key % 8 / 2)),
               word(token));
    const std::uint32_t bits = drawn[static_cast<std::size_t>(key / 8 % 4)] >> (key % 2 * 16);
    return (bits & 0xffff) < how.dropped() ? 0 : how.scale();
  }
  std::int64_t start(std::int64_t token) const {
    const std::int64_t t = token % seq;
    return std::max(document_start(token), window == 0 ? 0 : t - window + 1);
  }
  std::int64_t document_start(std::int64_t token) const {
    const std::int64_t t = token % seq;
    // Documents begin elsewhere in each sequence of the batch.
    return document == 0
               ? 0
               : std::max<std::int64_t>(0, (t + token / seq) / document * document - token / seq);
  }
};

inline std::ostream& operator<<(std::ostream& out, const AttentionCase& x) {
  return out << "batch " << x.batch << " seq " << x.seq << " heads " << x.heads << "/" << x.kv_heads
             << " width " << x.width << " document " << x.document << " window " << x.window
             << " soft cap " << x.soft_cap << " dropout " << x.dropout;
}

// Of a case's tokens, by number; empty: all.
using TokenSet = std::vector<bool>;

// What the tiles compute, written with whole matrices in float64; of some queries, which see some
// keys.
struct AttentionReference {
  Values out, lse, dqkv;

  AttentionReference(const AttentionCase& x, const Values& qkv, const Values& dout,
                     const TokenSet& queries = {}, const TokenSet& keys = {})
      : out(x.tokens() * x.heads * x.width), lse(x.tokens() * x.heads), dqkv(qkv.size()) {
    const std::int64_t row = x.shape().heads.qkv(), group = x.heads / x.kv_heads;
    for (std::int64_t b = 0; b < x.batch; ++b) {
      for (std::int64_t h = 0; h < x.heads; ++h) {
        for (std::int64_t t = 0; t < x.seq; ++t) {
          const std::int64_t token = b * x.seq + t, first = b * x.seq + x.start(token);
          if (!queries.empty() && !queries[token]) continue;
          const std::int64_t q = token * row + h * x.width;
          const std::int64_t k = (x.heads + h / group) * x.width;
          const std::int64_t v = k + x.kv_heads * x.width, o = (token * x.heads + h) * x.width;
          Values p(token - first + 1), dp(p.size()), slope(p.size(), 1);
          double top = -INFINITY, sum = 0, mean = 0;
          for (std::size_t s = 0; s < p.size(); ++s) {
            for (std::int64_t i = 0; i < x.width; ++i)
              p[s] += qkv[q + i] * qkv[(first + s) * row + k + i] * x.shape().scale;
            if (x.soft_cap > 0) {
              const double tangent = std::tanh(p[s] / x.soft_cap);
              p[s] = x.soft_cap * tangent;
              slope[s] = 1 - tangent * tangent;
            }
            if (!keys.empty() && !keys[first + s]) p[s] = -INFINITY;
            top = std::max(top, p[s]);
          }
          if (top == -INFINITY) {
            lse[token * x.heads + h] = top;
            continue;
          }
          for (double& value : p) sum += value = std::exp(value - top);
          lse[token * x.heads + h] = top + std::log(sum);
          Values kept(p.size());
          for (std::size_t s = 0; s < p.size(); ++s) {
            p[s] /= sum;
            kept[s] = x.factor(token, h, x.start(token) + static_cast<std::int64_t>(s));
            for (std::int64_t i = 0; i < x.width; ++i) {
              out[o + i] += kept[s] * p[s] * qkv[(first + s) * row + v + i];
              dp[s] += dout[o + i] * qkv[(first + s) * row + v + i];
            }
            dp[s] *= kept[s];
            mean += p[s] * dp[s];
          }
          for (std::size_t s = 0; s < p.size(); ++s) {
            const double ds = p[s] * (dp[s] - mean) * slope[s] * x.shape().scale;
            for (std::int64_t i = 0; i < x.width; ++i) {
              dqkv[(first + s) * row + v + i] += kept[s] * p[s] * dout[o + i];
              dqkv[(first + s) * row + k + i] += ds * qkv[q + i];
              dqkv[q + i] += ds * qkv[(first + s) * row + k + i];
            }
          }
        }
      }
    }
  }
};

// Uniform in [-1, 1), rounded to the dtype.
inline Values uniform_values(std::int64_t count, std::uint32_t seed, DType dtype) {
  std::mt19937 random(seed);
  Values values(static_cast<std::size_t>(count));
  for (double& value : values)
    value = rounded(static_cast<double>(random() >> 8) / (1 << 23) - 1, dtype);
  return values;
}

inline Values qkv_of(const AttentionCase& x, DType dtype) {
  return uniform_values(x.tokens() * x.shape().heads.qkv(), 1, dtype);
}

struct ComputedAttention {
  AttentionCase x;
  Values dout_values;
  Held qkv, dout, first_seen, words, out, lse, dqkv;

  // Forward and backward, in arenas of exactly the planned size.
  ComputedAttention(Stream& stream, const AttentionCase& how, DType dtype, const Values& qkv_values)
      : ComputedAttention(stream, how, dtype, qkv_values, nullptr) {
    Tally tally;
    Stream planning(stream.device(), tally);
    Arena plan = Arena::unbounded(stream.device());
    forward(planning, plan);
    backward(planning, plan);
    Arena scratch(plan.peak(), stream.device());
    forward(stream, scratch);
    backward(stream, scratch);
    stream.synchronize();
    EXPECT_EQ(scratch.used(), 0u);
  }
  ComputedAttention(Stream& stream, const AttentionCase& how, DType dtype)
      : ComputedAttention(stream, how, dtype, qkv_of(how, dtype)) {}
  // Nothing yet.
  ComputedAttention(Stream& stream, const AttentionCase& how, DType dtype, const Values& qkv_values,
                    std::nullptr_t)
      : x(how),
        dout_values(uniform_values(how.tokens() * how.shape().heads.query(), 2, dtype)),
        qkv(stream, {how.tokens(), how.shape().heads.qkv()}, dtype, qkv_values),
        dout(stream, {how.tokens(), how.shape().heads.query()}, dtype, dout_values),
        first_seen(stream, {how.tokens()}, DType::kI32, starts(how)),
        words(stream, {how.tokens()}, DType::kI32, words_of(how)),
        out(stream, {how.tokens(), how.shape().heads.query()}, dtype),
        lse(stream, {how.tokens(), how.heads}, accumulator_of(dtype)),
        dqkv(stream, {how.tokens(), how.shape().heads.qkv()}, dtype) {}

  static Values starts(const AttentionCase& how) {
    Values all;
    for (std::int64_t t = 0; t < how.tokens(); ++t)
      all.push_back(static_cast<double>(how.start(t)));
    return all;
  }
  static Values words_of(const AttentionCase& how) {
    Values all;
    for (std::int64_t t = 0; t < how.tokens(); ++t)
      all.push_back(static_cast<std::int32_t>(how.word(t)));
    return all;
  }
  AttentionShape shape() const {
    AttentionShape shape = x.shape();
    shape.dropout.words = words;
    return shape;
  }
  void forward(Stream& stream, Arena& scratch) const {
    attention(stream, scratch, out, lse, qkv, first_seen, shape());
  }
  void backward(Stream& stream, Arena& scratch) const {
    attention_backward(stream, scratch, {dqkv, dout, out, qkv, lse, first_seen}, shape());
  }
};

inline double furthest(const Values& a, const Values& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double apart = a[i] == b[i] ? 0 : std::fabs(a[i] - b[i]);  // infinities too
    worst = std::isnan(apart) ? INFINITY : std::max(worst, apart);
  }
  return worst;
}

}  // namespace trireme::test
