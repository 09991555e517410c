#include "parallel/data/gradient_reducer.h"

#include <algorithm>

#include "model/ops/elementwise.h"
#include "parallel/data/tree_sum.h"
#include "parallel/data/unit_slots.h"

namespace trireme {
namespace {

// Sums the tensors, a power of two, into the first: adjacent ones first, as TreeSum does.
// Overwrites the others.
void sum_in_place(Stream& stream, const std::vector<Tensor>& tensors) {
  for (std::size_t apart = 1; apart < tensors.size(); apart *= 2) {
    for (std::size_t i = 0; i + apart < tensors.size(); i += 2 * apart) {
      ops::add(stream, tensors[i], tensors[i], tensors[i + apart]);
    }
  }
}

}  // namespace

GradientReducer::Tree GradientReducer::Tree::range(std::int64_t from, std::int64_t count) const {
  Tree part{.begin = from, .total = total.slice(from - begin, count)};
  for (const Tensor& level : levels) part.levels.push_back(level.slice(from - begin, count));
  return part;
}

GradientReducer::GradientReducer(ParamStore& store, const GroupRanks& ranks, const Options& options,
                                 Arena& gradients, Arena& messages)
    : store_(store),
      ranks_(ranks),
      options_(options),
      shared_(store.sharing().gradients),
      in_step_(options.micro_batches) {
  for (const ParamStore::Bucket& bucket : store.buckets()) {
    const Communicator& shard = ranks.of(bucket.group).shard;
    require(bucket.parts == shard.size() && bucket.owned == shard.rank(),
            "the store is sharded over other ranks");
  }
  const bool are_compressed = options_.compression.method != CompressionOptions::Method::kNone;
  require(!are_compressed || (!options_.reproducible && options_.expert_ranks == 1),
          "compressed sums are neither reproducible nor of expert ranks");
  if (options_.reproducible) take_trees(gradients);
  std::vector<GradientRange> ranges;
  for (std::size_t b = 0; b < store.buckets().size(); ++b) {
    const ParamStore::Bucket& bucket = store.buckets()[b];
    const Tensor gradients_of_rank = own(static_cast<int>(b));
    const std::int64_t first = bucket.begin + bucket.part * bucket.owned;
    // What the range contains takes a look at all parameters, which only compression needs.
    ranges.push_back(are_compressed ? gradient_range(store, first, gradients_of_rank)
                                    : GradientRange{gradients_of_rank, {}});
  }
  compression_.emplace(options_.compression, ranks.dense.replicate, std::move(ranges),
                       CompressionMemory{gradients, messages});
  if (!shared_) return;
  const UnitSlots slots(store, /*gradients=*/true,
                        options_.reproducible ? options_.expert_ranks : 1);
  slot_of_ = slots.of_unit;
  for (const std::int64_t count : slots.elements) {
    slots_.push_back({messages.take({count}, store.grads().dtype)});
  }
}

// With sharded gradients the tokens of all expert ranks are summed in a micro-batch already.
void GradientReducer::take_trees(Arena& gradients) {
  const auto take = [&](std::int64_t count) {
    return gradients.take({count}, store_.grads().dtype);
  };
  const auto with_levels = [&](std::int64_t begin, const Tensor& total) {
    Tree& tree = trees_.emplace_back(Tree{.begin = begin, .total = total});
    for (int level = 0; level < TreeSum::levels(options_.micro_batches); ++level) {
      tree.levels.push_back(take(total.count()));
    }
  };
  with_levels(0, store_.grads());
  std::int64_t begin = store_.grads().count(), end = 0;
  for (const ParamStore::Bucket& bucket : store_.buckets()) {
    if (bucket.group != ParamGroup::kExperts) continue;
    begin = std::min(begin, bucket.begin);
    end = std::max(end, bucket.begin + bucket.count());
  }
  if (shared_ || end == 0) return;
  for (int rank = 1; rank < options_.expert_ranks; ++rank) with_levels(begin, take(end - begin));
}

const ParamStore::Bucket& GradientReducer::bucket_of(int unit) const {
  return store_
      .buckets()[static_cast<std::size_t>(store_.units()[static_cast<std::size_t>(unit)].bucket)];
}

// Of a micro-batch.
int GradientReducer::leaves_of(int unit) const {
  const bool is_dense = bucket_of(unit).group == ParamGroup::kDense;
  return is_dense || !options_.reproducible ? 1 : options_.expert_ranks;
}

Tensor GradientReducer::own(int bucket) const {
  return store_.own_part(store_.grads(), store_.buckets()[static_cast<std::size_t>(bucket)],
                         shared_);
}

std::vector<Tensor> GradientReducer::partial(int bucket) const {
  std::vector<Tensor> parts;
  for (const Tensor& level : trees_.front().levels) {
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
    units_missing_.push_back(std::ssize(bucket.units));
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
  const ParamStore::Bucket& place = bucket_of(unit);
  std::vector<Tensor> leaves;
  if (shared_) {
    const Tensor& memory = slot_of(unit).memory;
    for (int leaf = 0; leaf < leaves_of(unit); ++leaf) {
      leaves.push_back(memory.slice(leaf * place.count(), place.count()));
    }
  } else if (options_.reproducible) {
    for (int leaf = 0; leaf < leaves_of(unit); ++leaf) {
      const Tree tree = trees_[static_cast<std::size_t>(leaf)].range(place.begin, place.count());
      leaves.push_back(TreeSum::place(arrived_[static_cast<std::size_t>(unit)], in_step_,
                                      tree.total, tree.levels));
    }
  }
  if (leaves.empty()) return;
  if (leaves.size() == 1) {
    store_.place_gradients(unit, leaves.front());
  } else {
    store_.place_gradients(unit, leaves);
  }
  store_.expect_gradients(unit);
}

int GradientReducer::gradient_place(std::int64_t k) const {
  if (shared_) return 0;
  if (options_.reproducible) {
    const Tree& tree = trees_.front();
    return TreeSum::place(k, in_step_, tree.total, tree.levels).data == tree.total.data ? 1 : 0;
  }
  const bool replaces = k == 0, reduces = k + 1 == in_step_ && starts_reductions();
  return (replaces ? 1 : 0) + (reduces ? 2 : 0);
}

bool GradientReducer::queues_after(int unit) const {
  const bool is_last = arrived_[static_cast<std::size_t>(unit)] + 1 == in_step_;
  return shared_ || options_.reproducible || (is_last && starts_reductions());
}

bool GradientReducer::starts_reductions() const {
  const DataRanks& ranks = ranks_.dense;
  return ranks.shard.size() > 1 || (ranks.replicate.size() > 1 && !compression_->compresses());
}

void GradientReducer::after(Stream& stream, int unit) {
  const std::int64_t micro_batch = arrived_[static_cast<std::size_t>(unit)]++;
  const ParamStore::Unit& place = store_.units()[static_cast<std::size_t>(unit)];
  const int leaf_count = leaves_of(unit);
  if (shared_) {
    Slot& slot = slot_of(unit);
    const ParamStore::Bucket& bucket = bucket_of(unit);
    std::vector<Tensor> leaves;
    for (int leaf = 0; leaf < leaf_count; ++leaf) {
      leaves.push_back(slot.memory.slice(leaf * bucket.count(), bucket.count()));
    }
    sum_in_place(stream, leaves);
    slot.transfer = ranks_.of(bucket.group)
                        .shard.start_reduce_scatter(
                            stream, leaves.front().slice(bucket.owned * bucket.part, bucket.part),
                            leaves.front());
    return;
  }
  const bool is_last = micro_batch + 1 == in_step_;
  if (options_.reproducible) {
    std::vector<Tensor> totals;
    for (int leaf = 0; leaf < leaf_count; ++leaf) {
      const Tree tree =
          trees_[static_cast<std::size_t>(leaf)].range(place.begin, place.end - place.begin);
      TreeSum::add(stream, micro_batch, in_step_,
                   TreeSum::place(micro_batch, in_step_, tree.total, tree.levels), tree.total,
                   tree.levels);
      totals.push_back(tree.total);
    }
    if (is_last) sum_in_place(stream, totals);
  }
  if (!is_last) return;
  if (--units_missing_[static_cast<std::size_t>(place.bucket)] == 0) reduce(stream, place.bucket);
}

// Starts the reduction of a bucket whose local gradients are final.
void GradientReducer::reduce(Stream& stream, int bucket) {
  const ParamStore::Bucket& place = store_.buckets()[static_cast<std::size_t>(bucket)];
  const DataRanks& ranks = ranks_.of(place.group);
  if (ranks.shard.size() > 1) {
    under_way_.push_back(
        {bucket, ranks.shard.start_reduce_scatter(stream, own(bucket),
                                                  store_.bucket_of(store_.grads(), place))});
  } else if (!compression_->compresses()) {
    under_way_.push_back(
        {bucket, ranks.replicate.start_all_reduce(stream, own(bucket), Reduce::kSum)});
  }
}

// Accumulates a slot's reduced shard, after its transfer, at the owner.
void GradientReducer::empty(Stream& stream, Slot& slot) {
  if (slot.bucket < 0) return;
  slot.transfer.wait();
  const ParamStore::Bucket& bucket = store_.buckets()[static_cast<std::size_t>(slot.bucket)];
  take_in(stream, slot.bucket, slot.micro_batch,
          slot.memory.slice(bucket.owned * bucket.part, bucket.part));
  slot.bucket = -1;
}

void GradientReducer::take_in(Stream& stream, int bucket, std::int64_t micro_batch, Tensor part) {
  if (options_.reproducible) {
    const ParamGroup group = store_.buckets()[static_cast<std::size_t>(bucket)].group;
    ranks_.of(group).replicate.all_reduce(stream, part, Reduce::kSum);
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
  for (std::size_t b = store_.buckets().size(); b-- > 0;) {
    const DataRanks& ranks = ranks_.of(store_.buckets()[b].group);
    const bool replicas_left =
        shared_ ? !options_.reproducible : ranks.shard.size() > 1 || compression_->compresses();
    if (!replicas_left) continue;
    if (compression_->compresses()) {
      compression_->reduce(stream, b, update);
    } else {
      ranks.replicate.all_reduce(stream, own(static_cast<int>(b)), Reduce::kSum);
    }
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
