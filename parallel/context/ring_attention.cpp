#include "parallel/context/ring_attention.h"

#include <array>

#include "model/ops/elementwise.h"
#include "model/ops/part_attention.h"
#include "parallel/context/head_group.h"
#include "parallel/context/ring_exchange.h"

namespace trireme {
namespace {

// Who exchanges what in a step of the ring.
class RingStep {
 public:
  RingStep(const Communicator& ranks, const ReadersOfRanks& readers, int step)
      : rank_(ranks.rank()),
        ranks_(ranks.size()),
        after_((rank_ + step) % ranks_),
        before_((rank_ + ranks_ - step) % ranks_),
        is_read_(readers(after_, rank_)),
        reads_(readers(rank_, before_)) {}

  int before() const { return before_; }
  bool reads() const { return reads_; }      // the keys of the rank before
  bool is_read() const { return is_read_; }  // by the rank after

  RingExchange::Messages forth(Tensor own, Tensor of_before) const {
    return {.sent = is_read_ ? own : Tensor{},
            .received = reads_ ? of_before : Tensor{},
            .to = after_,
            .from = before_};
  }
  RingExchange::Messages back(Tensor of_before, Tensor own) const {
    return {.sent = reads_ ? of_before : Tensor{},
            .received = is_read_ ? own : Tensor{},
            .to = before_,
            .from = after_};
  }

 private:
  int rank_, ranks_, after_, before_;
  bool is_read_, reads_;
};

}  // namespace

// The keys and values of one rank after the other, in scratch; the next are on their way while
// those of a step are read.
class RingAttention::Keys {
 public:
  Keys(Communicator& ranks, ExecContext& ctx, Tensor qkv, const MicroBatch& batch,
       const ops::AttentionShape& shape)
      : ranks_(ranks),
        stream_(ctx.stream),
        batch_(batch),
        shape_(shape),
        qkv_(qkv),
        readers_(shape.window > 0 ? batch.shard.window_readers : batch.shard.readers) {
    const HeadGroup all = HeadGroup::whole(shape.heads);
    for (Tensor& kv : kv_) kv = ctx.scratch.take({qkv.rows(), all.kv_width()}, qkv.dtype);
    all.take_keys(stream_, {kv_[0]}, qkv);
    start(1);
  }

  RingStep step(int number) const { return {ranks_, readers_, number}; }
  // The queries of this rank with the keys of the rank before in a step.
  ops::PartAttention part(int number) const {
    const Tensor& rows_of_ranks = batch_.shard.rows_of_ranks;
    return {.keys = batch_.seq_len,
            .qkv = qkv_,
            .kv = kv_[place(number)],
            .rows = batch_.shard.rows,
            .first_seen = batch_.first_seen(shape_.window > 0),
            .key_rows = rows_of_ranks.row_slice(step(number).before(), 1)};
  }
  // Steps are begun in order, each after the work on the one before is queued.
  void begin(int number) {
    if (number == 0) return;
    exchange_.wait();
    start(number + 1);
  }

 private:
  // The own keys stay; others alternate.
  static std::size_t place(int number) {
    return number == 0 ? 0 : 1 + static_cast<std::size_t>(number % 2);
  }
  void start(int number) {
    if (number >= ranks_.size()) return;
    exchange_.start(ranks_, stream_, step(number).forth(kv_[0], kv_[place(number)]));
  }

  Communicator& ranks_;
  Stream& stream_;
  const MicroBatch& batch_;
  const ops::AttentionShape& shape_;
  const Tensor qkv_;
  const ReadersOfRanks& readers_;
  std::array<Tensor, 3> kv_;
  RingExchange exchange_;
};

void RingAttention::forward(ExecContext& ctx, Tensor out, Tensor lse, Tensor qkv,
                            const MicroBatch& batch, const ops::AttentionShape& shape) {
  const Arena::Frame frame(ctx.scratch);
  Keys keys(ranks_, ctx, qkv, batch, shape);
  const Tensor sum = ctx.scratch.take(out.shape, lse.dtype);
  const Tensor part_out = ctx.scratch.take(out.shape, out.dtype);
  const Tensor part_lse = ctx.scratch.take(lse.shape, lse.dtype);
  for (int s = 0; s < ranks_.size(); ++s) {
    keys.begin(s);
    if (s > 0 && !keys.step(s).reads()) continue;
    ops::part_attention(ctx.stream, ctx.scratch, part_out, s == 0 ? lse : part_lse, keys.part(s),
                        shape);
    if (s == 0) {
      ops::cast(ctx.stream, sum, part_out);
    } else {
      ops::merge_attention(ctx.stream, sum, lse, part_out, part_lse, shape.heads);
    }
  }
  ops::cast(ctx.stream, out, sum);
}

void RingAttention::backward(ExecContext& ctx, const ops::AttentionBackward& how,
                             const MicroBatch& batch, const ops::AttentionShape& shape) {
  Stream& stream = ctx.stream;
  const Arena::Frame frame(ctx.scratch);
  Keys keys(ranks_, ctx, how.qkv, batch, shape);
  const DType dtype = how.qkv.dtype, exact = how.lse.dtype;
  const HeadGroup all = HeadGroup::whole(shape.heads);
  const Shape kv_shape{how.qkv.rows(), all.kv_width()};
  const Tensor dq = ctx.scratch.take(how.out.shape, exact), dkv = ctx.scratch.take(kv_shape, exact);
  const Tensor part_dq = ctx.scratch.take(how.out.shape, dtype);
  const Tensor part_dkv = ctx.scratch.take(kv_shape, dtype);
  const Tensor returned = ctx.scratch.take(kv_shape, dtype);
  // Of a part, before it is added.
  const Tensor exact_dq = ctx.scratch.take(dq.shape, exact);
  const Tensor exact_dkv = ctx.scratch.take(kv_shape, exact);
  const auto add = [&](int s, Tensor sum, Tensor term, Tensor exact_term) {
    ops::cast(stream, s == 0 ? sum : exact_term, term);
    if (s > 0) ops::add(stream, sum, sum, exact_term);
  };
  for (int s = 0; s < ranks_.size(); ++s) {
    keys.begin(s);
    const RingStep step = keys.step(s);
    if (s == 0 || step.reads()) {
      ops::part_attention_backward(
          stream, ctx.scratch,
          {.dq = part_dq, .dkv = part_dkv, .dout = how.dout, .out = how.out, .lse = how.lse},
          keys.part(s), shape);
      add(s, dq, part_dq, exact_dq);
    }
    if (s > 0) {
      RingExchange back;
      back.start(back_, stream, step.back(part_dkv, returned));
      back.wait();
    }
    if (s == 0 || step.is_read()) add(s, dkv, s == 0 ? part_dkv : returned, exact_dkv);
  }
  ops::cast(stream, part_dq, dq);
  ops::cast(stream, part_dkv, dkv);
  all.put_queries(stream, how.dqkv, part_dq);
  all.put_keys(stream, how.dqkv, {part_dkv});
}

}  // namespace trireme
