#include "model/ops/attention_sink.h"

#include "model/ops/attention.h"
#include "tests/model/ops/op_test.h"

namespace trireme::ops {
namespace {

using namespace trireme::test;  // NOLINT(google-build-using-namespace)

struct SinkCase {
  std::int64_t tokens, heads, kv_heads, width;
  Heads layout() const { return {heads, kv_heads, width}; }
};
constexpr SinkCase kSinkCases[] = {
    {1, 1, 1, 1}, {5, 3, 1, 7}, {13, 4, 2, 64}, {9, 2, 2, 130}, {3, 5, 1, 256}};

// Sinks far below, near and far above the scores.
Values some_sinks(std::int64_t heads, DType dtype) {
  Values sinks = random_values(heads, 4, dtype);
  for (std::size_t h = 0; h < sinks.size(); ++h) {
    if (h % 3 == 1) sinks[h] = -200;
    if (h % 3 == 2) sinks[h] = 200;
  }
  return sinks;
}

TEST(AttentionSink, scales_outputs_and_adds_to_the_sums) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    for (const SinkCase& c : kSinkCases) {
      SCOPED_TRACE(say(c.tokens, " tokens, ", c.heads, " heads of ", c.width));
      const DType exact = accumulator_of(dtype);
      const Values sinks = some_sinks(c.heads, dtype);
      Values out = random_values(c.tokens * c.heads * c.width, 1, dtype);
      Values lse = random_values(c.tokens * c.heads, 2, exact, 3);
      const Held o(stream, {c.tokens, c.heads * c.width}, dtype, out);
      const Held l(stream, {c.tokens, c.heads}, exact, lse);
      attention_sink(stream, o, l, Held(stream, {c.heads}, dtype, sinks), c.layout());
      for (std::size_t row = 0; row < lse.size(); ++row) {
        const double sink = sinks[row % static_cast<std::size_t>(c.heads)];
        const double share = 1 / (1 + std::exp(sink - lse[row]));
        for (std::int64_t i = 0; i < c.width; ++i) {
          out[row * static_cast<std::size_t>(c.width) + static_cast<std::size_t>(i)] *= share;
        }
        const double top = std::max(sink, lse[row]);
        lse[row] = top + std::log(std::exp(sink - top) + std::exp(lse[row] - top));
      }
      expect_values(o, out, 16, 3);
      expect_values(l, lse, 4);
    }
  });
}

TEST(AttentionSink, gradient_is_the_formula) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    for (const SinkCase& c : kSinkCases) {
      SCOPED_TRACE(say(c.tokens, " tokens, ", c.heads, " heads of ", c.width));
      const DType exact = accumulator_of(dtype);
      const std::int64_t count = c.tokens * c.heads * c.width;
      const Values sinks = random_values(c.heads, 4, dtype);
      const Values out = random_values(count, 1, dtype), dout = random_values(count, 3, dtype);
      const Values lse = random_values(c.tokens * c.heads, 2, exact);
      const Values before = random_values(c.heads, 5, exact);
      for (const Accumulate accumulate : {Accumulate::kReplace, Accumulate::kAdd}) {
        const bool adds = accumulate == Accumulate::kAdd;
        const Shape shape{c.tokens, c.heads * c.width};
        const Held dsinks(stream, {c.heads}, exact, adds ? before : Values{});
        const Held o(stream, shape, dtype, out), d(stream, shape, dtype, dout);
        const Held l(stream, {c.tokens, c.heads}, exact, lse);
        const Held s(stream, {c.heads}, dtype, sinks);
        Arena scratch(std::size_t{1} << 16, stream.device());
        attention_sink_backward(stream, scratch,
                                {.dsinks = dsinks,
                                 .dout = d,
                                 .out = o,
                                 .lse = l,
                                 .sinks = s,
                                 .heads = c.layout(),
                                 .accumulate = accumulate});
        Values expected = adds ? before : Values(before.size(), 0.0);
        double scale = 1;
        for (std::size_t i = 0; i < out.size(); ++i) {
          const std::size_t row = i / static_cast<std::size_t>(c.width);
          const std::size_t head = row % static_cast<std::size_t>(c.heads);
          const double share = std::exp(sinks[head] - lse[row]);
          expected[head] -= share * out[i] * dout[i];
          scale = std::max(scale, share);
        }
        const double size = std::sqrt(static_cast<double>(c.width * c.tokens));
        expect_values(dsinks, expected, 16 + 2 * size, scale * size);
      }
    }
  });
}

constexpr std::int64_t kSeq = 11;
constexpr Heads kHeads{4, 2, 8};
constexpr std::int64_t kWindow = 5;

// Whole matrices in float64, one sequence with a window: the sink is a key without a value.
Values with_sinks(const Values& qkv, const Values& sinks) {
  Values out(static_cast<std::size_t>(kSeq * kHeads.query()), 0.0);
  const auto element = [&](std::int64_t token, std::int64_t head, std::int64_t i) {
    return qkv[static_cast<std::size_t>(token * kHeads.qkv() + head * kHeads.width + i)];
  };
  for (std::int64_t head = 0; head < kHeads.heads; ++head) {
    const std::int64_t key_head = kHeads.heads + head / 2, value_head = key_head + kHeads.kv_heads;
    for (std::int64_t t = 0; t < kSeq; ++t) {
      Values weights;
      double sum = std::exp(sinks[static_cast<std::size_t>(head)]);
      for (std::int64_t s = std::max<std::int64_t>(0, t - kWindow + 1); s <= t; ++s) {
        double score = 0;
        for (std::int64_t i = 0; i < kHeads.width; ++i) {
          score += element(t, head, i) * element(s, key_head, i);
        }
        weights.push_back(std::exp(score / std::sqrt(8.0)));
        sum += weights.back();
      }
      const std::int64_t first = t + 1 - std::ssize(weights);
      for (std::int64_t s = first; s <= t; ++s) {
        for (std::int64_t i = 0; i < kHeads.width; ++i) {
          out[static_cast<std::size_t>(t * kHeads.query() + head * kHeads.width + i)] +=
              weights[static_cast<std::size_t>(s - first)] / sum * element(s, value_head, i);
        }
      }
    }
  }
  return out;
}

const AttentionShape kSinkShape{
    .seq = kSeq, .heads = kHeads, .scale = 1 / std::sqrt(8.0), .masked = true, .window = kWindow};

Values window_starts() {
  Values starts;
  for (std::int64_t t = 0; t < kSeq; ++t) {
    starts.push_back(static_cast<double>(std::max<std::int64_t>(0, t - kWindow + 1)));
  }
  return starts;
}

TEST(AttentionSink, after_attention_is_a_key_without_a_value_and_so_are_all_gradients) {
  on_every_platform([](Stream& stream) {
    const DType dtype = DType::kF64;
    const Shape in{kSeq, kHeads.qkv()}, out_shape{kSeq, kHeads.query()};
    const Values qkv = random_values(in.count(), 1), sinks = random_values(kHeads.heads, 2);
    const Values dout = random_values(out_shape.count(), 3);
    const Held x(stream, in, dtype, qkv), s(stream, {kHeads.heads}, dtype, sinks);
    const Held first(stream, {kSeq}, DType::kI32, window_starts());
    const Held out(stream, out_shape, dtype), lse(stream, {kSeq, kHeads.heads}, dtype);
    Arena scratch(std::size_t{8} << 20, stream.device());
    attention(stream, scratch, out, lse, x, first, kSinkShape);
    attention_sink(stream, out, lse, s, kHeads);
    expect_values(out, with_sinks(qkv, sinks), 40);

    const Held d(stream, out_shape, dtype, dout), dqkv(stream, in, dtype);
    const Held dsinks(stream, {kHeads.heads}, dtype);
    attention_sink_backward(stream, scratch,
                            {.dsinks = dsinks,
                             .dout = d,
                             .out = out,
                             .lse = lse,
                             .sinks = s,
                             .heads = kHeads,
                             .accumulate = Accumulate::kReplace});
    attention_backward(
        stream, scratch,
        {.dqkv = dqkv, .dout = d, .out = out, .qkv = x, .lse = lse, .first_seen = first},
        kSinkShape);
    expect_gradient([&](const Values& changed) { return dot(with_sinks(changed, sinks), dout); },
                    qkv, dqkv.values());
    expect_gradient([&](const Values& changed) { return dot(with_sinks(qkv, changed), dout); },
                    sinks, dsinks.values());
  });
}

TEST(AttentionSink, by_a_cache_is_that_of_the_whole_sequence) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    const Values qkv = random_values(kSeq * kHeads.qkv(), 1, dtype);
    const Values sinks = random_values(kHeads.heads, 2, dtype);
    const Shape cache{kWindow, kHeads.kv_heads * kHeads.width};
    const Held keys(stream, cache, dtype), values(stream, cache, dtype);
    const Held x(stream, {kSeq, kHeads.qkv()}, dtype, qkv);
    const Held s(stream, {kHeads.heads}, dtype, sinks);
    const Held out(stream, {kSeq, kHeads.query()}, dtype);
    Arena scratch(std::size_t{8} << 20, stream.device());
    for (std::int64_t t = 0; t < kSeq; ++t) {
      attention_cached(stream, scratch,
                       {.out = Tensor(out).row_slice(t, 1),
                        .qkv = Tensor(x).row_slice(t, 1),
                        .keys = keys,
                        .values = values,
                        .first = t,
                        .heads = kHeads,
                        .scale = kSinkShape.scale,
                        .window = kWindow,
                        .sinks = s});
    }
    expect_values(out, with_sinks(qkv, sinks), 60);
  });
}

TEST(AttentionSink, by_splits_of_a_long_cache_is_that_of_the_whole_sequence) {
  on_every_platform([](Stream& stream) {
    // Zero queries: all keys weigh the same, each value is 1.
    const std::int64_t length = 3000;
    const Heads heads{1, 1, 64};
    const Shape cache{length, heads.width};
    const Held keys(stream, cache, DType::kF32, Values(cache.count(), 0.5));
    const Held values(stream, cache, DType::kF32, Values(cache.count(), 1.0));
    Values qkv(heads.qkv(), 0.0);
    std::fill(qkv.begin() + 2 * heads.width, qkv.end(), 1.0);
    const Held x(stream, {1, heads.qkv()}, DType::kF32, qkv);
    const Held out(stream, {1, heads.width}, DType::kF32);
    Arena scratch(std::size_t{8} << 20, stream.device());
    attention_cached(stream, scratch,
                     {.out = out,
                      .qkv = x,
                      .keys = keys,
                      .values = values,
                      .first = length - 1,
                      .heads = heads,
                      .sinks = Held(stream, {1}, DType::kF32, {8})});
    const double share = static_cast<double>(length) / (static_cast<double>(length) + std::exp(8));
    expect_values(out, Values(heads.width, share), 80);
  });
}

TEST(AttentionSink, of_other_sizes_is_an_error) {
  on_every_platform([](Stream& stream) {
    const Held out(stream, {3, 16}, DType::kF32), lse(stream, {3, 2}, DType::kF32);
    const Held three(stream, {3}, DType::kF32);
    EXPECT_THROW(attention_sink(stream, out, lse, three, {2, 1, 8}), Error);
    EXPECT_THROW(attention_sink(stream, out, three, three, {2, 1, 8}), Error);
  });
}

}  // namespace
}  // namespace trireme::ops
