#include "parallel/data/gradient_reducer.h"

#include "model/ops/elementwise.h"
#include "parallel/data/tree_sum.h"
#include "parallel/data/unit_slots.h"

namespace trireme {

GradientReducer::GradientReducer(ParamStore& store, DataRanks ranks, const Options& options,
                                 Arena& gradients, Arena& messages)
    : store_(store),
      ranks_(ranks),
      options_(options),
      shared_(store.sharing().gradients),
      in_step_(options.micro_batches) {
  require(store.sharing().parts == ranks.shard.size() && store.sharing().part == ranks.shard.rank(),
          "the store is sharded over other ranks");
  if (options_.reproducible) {
    for (int level = 0; level < TreeSum::levels(options_.micro_batches); ++level) {
      levels_.push_back(gradients.take(store.grads().shape, store.grads().dtype));
    }
  }
  require(
      !options_.reproducible || options_.compression.method == CompressionOptions::Method::kNone,
      "compressed sums are not reproducible");
  std::vector<GradientRange> ranges;
  for (std::size_t b = 0; b < store.buckets().size(); ++b) {
    const ParamStore::Bucket& bucket = store.buckets()[b];
    ranges.push_back(gradient_range(store, bucket.begin + bucket.part * store.sharing().part,
                                    own(static_cast<int>(b))));
  }
  compression_.emplace(options_.compression, ranks.replicate, std::move(ranges),
                       CompressionMemory{gradients, messages});
  if (!shared_) return;
  const UnitSlots slots(store, /*gradients=*/true);
  slot_of_ = slots.of_unit;
  for (const std::int64_t count : slots.elements) {
    slots_.push_back({messages.take({count}, store.grads().dtype)});
  }
}

Tensor GradientReducer::own(int bucket) const {
  return store_.own_part(store_.grads(), store_.buckets()[static_cast<std::size_t>(bucket)],
                         shared_);
}

std::vector<Tensor> GradientReducer::partial(int bucket) const {
  std::vector<Tensor> parts;
  for (const Tensor& level : levels_) {
    parts.push_back(
        store_.own_part(level, store_.buckets()[static_cast<std::size_t>(bucket)], shared_));
  }
  return parts;
}

GradientReducer::Slot& GradientReducer::slot_of(int unit) {
  return slots_[static_cast<std::size_t>(slot_of_[static_cast<std::size_t>(unit)])];
}

void GradientReducer::begin(std::int64_t micro_batches) {
  require(micro_batches >= 1 && micro_batches <= options_.micro_batches, "a step of ",
          micro_batches, " micro-batches, of at most ", options_.micro_batches);
  in_step_ = micro_batches;
  store_.expect_gradients();
  arrived_.assign(store_.units().size(), 0);
  units_missing_.clear();
  for (const ParamStore::Bucket& bucket : store_.buckets()) {
    units_missing_.push_back(bucket.end_unit - bucket.first_unit);
  }
  under_way_.clear();
}

void GradientReducer::before(Stream& stream, int unit) {
  if (shared_) {
    Slot& slot = slot_of(unit);
    empty(stream, slot);
    slot.bucket = store_.units()[static_cast<std::size_t>(unit)].bucket;
    slot.micro_batch = arrived_[static_cast<std::size_t>(unit)];
  }
  place(unit);
}

void GradientReducer::place(int unit) {
  const int bucket = store_.units()[static_cast<std::size_t>(unit)].bucket;
  const ParamStore::Bucket& place = store_.buckets()[static_cast<std::size_t>(bucket)];
  if (shared_) {
    store_.place_gradients(unit,
                           slot_of(unit).memory.slice(0, place.part * store_.sharing().parts));
    store_.expect_gradients(unit);
  } else if (!levels_.empty()) {
    std::vector<Tensor> levels;
    for (const Tensor& level : levels_) levels.push_back(store_.bucket_of(level, place));
    store_.place_gradients(unit, TreeSum::place(arrived_[static_cast<std::size_t>(unit)], in_step_,
                                                store_.bucket_of(store_.grads(), place), levels));
    store_.expect_gradients(unit);
  }
}

int GradientReducer::gradient_place(std::int64_t k) const {
  if (shared_) return 0;
  if (!levels_.empty()) {
    const Tensor total = store_.grads();
    return TreeSum::place(k, in_step_, total, levels_).data == total.data ? 1 : 0;
  }
  const bool replaces = k == 0, reduces = k + 1 == in_step_ && starts_reductions();
  return (replaces ? 1 : 0) + (reduces ? 2 : 0);
}

bool GradientReducer::queues_after(int unit) const {
  const bool is_last = arrived_[static_cast<std::size_t>(unit)] + 1 == in_step_;
  return shared_ || !levels_.empty() || (is_last && starts_reductions());
}

bool GradientReducer::starts_reductions() const {
  return ranks_.shard.size() > 1 || (ranks_.replicate.size() > 1 && !compression_->compresses());
}

void GradientReducer::after(Stream& stream, int unit) {
  const std::int64_t micro_batch = arrived_[static_cast<std::size_t>(unit)]++;
  const ParamStore::Unit& place = store_.units()[static_cast<std::size_t>(unit)];
  if (shared_) {
    Slot& slot = slot_of(unit);
    const std::int64_t part = store_.buckets()[static_cast<std::size_t>(place.bucket)].part;
    slot.transfer = ranks_.shard.start_reduce_scatter(
        stream, slot.memory.slice(ranks_.shard.rank() * part, part),
        slot.memory.slice(0, part * ranks_.shard.size()));
    return;
  }
  if (!levels_.empty()) {
    const std::int64_t count = place.end - place.begin;
    const auto of_unit = [&](const Tensor& flat) { return flat.slice(place.begin, count); };
    std::vector<Tensor> levels;
    for (const Tensor& level : levels_) levels.push_back(of_unit(level));
    const Tensor total = of_unit(store_.grads());
    const Tensor leaf = TreeSum::place(micro_batch, in_step_, total, levels);
    TreeSum::add(stream, micro_batch, in_step_, leaf, total, levels);
  }
  if (micro_batch + 1 < in_step_) return;
  if (--units_missing_[static_cast<std::size_t>(place.bucket)] == 0) reduce(stream, place.bucket);
}

// Starts the reduction of a bucket whose local gradients are final.
void GradientReducer::reduce(Stream& stream, int bucket) {
  const ParamStore::Bucket& place = store_.buckets()[static_cast<std::size_t>(bucket)];
  if (ranks_.shard.size() > 1) {
    under_way_.push_back(
        {bucket, ranks_.shard.start_reduce_scatter(stream, own(bucket),
                                                   store_.bucket_of(store_.grads(), place))});
  } else if (!compression_->compresses()) {
    under_way_.push_back(
        {bucket, ranks_.replicate.start_all_reduce(stream, own(bucket), Reduce::kSum)});
  }
}

// Accumulates a slot's reduced shard, after its transfer, at the owner.
void GradientReducer::empty(Stream& stream, Slot& slot) {
  if (slot.bucket < 0) return;
  slot.transfer.wait();
  const std::int64_t part = store_.buckets()[static_cast<std::size_t>(slot.bucket)].part;
  take_in(stream, slot.bucket, slot.micro_batch,
          slot.memory.slice(ranks_.shard.rank() * part, part));
  slot.bucket = -1;
}

void GradientReducer::take_in(Stream& stream, int bucket, std::int64_t micro_batch, Tensor part) {
  if (options_.reproducible) {
    ranks_.replicate.all_reduce(stream, part, Reduce::kSum);
    TreeSum::add(stream, micro_batch, in_step_, part, own(bucket), partial(bucket));
  } else if (micro_batch == 0) {
    ops::copy(stream, own(bucket), part);
  } else {
    ops::add(stream, own(bucket), own(bucket), part);
  }
}

void GradientReducer::finish(Stream& stream, std::int64_t update) {
  store_.require_gradients();
  for (Slot& slot : slots_) empty(stream, slot);
  for (Reduction& reduction : under_way_) reduction.transfer.wait();
  const bool replicas_left =
      shared_ ? !options_.reproducible : ranks_.shard.size() > 1 || compression_->compresses();
  for (std::size_t b = store_.buckets().size(); b-- > 0 && replicas_left;) {
    compression_->reduce(stream, b, update);
  }
  for (const ParamStore::Apart& apart : store_.apart()) {
    const auto bucket = [&](const Weight& weight) {
      return store_.units()[static_cast<std::size_t>(weight.unit)].bucket;
    };
    const Tensor sum = own(bucket(*apart.of));
    ops::add(stream, sum, sum, own(bucket(apart.weight)));
  }
}

}  // namespace trireme
