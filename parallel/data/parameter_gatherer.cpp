#include "parallel/data/parameter_gatherer.h"

#include <algorithm>

#include "parallel/data/unit_slots.h"

namespace trireme {

ParameterGatherer::ParameterGatherer(ParamStore& store, const GroupRanks& ranks, bool in_common,
                                     Arena& messages)
    : store_(store), ranks_(ranks), in_common_(in_common), published_(store.buckets().size()) {
  if (!store.sharing().values) return;
  const UnitSlots slots(store, /*gradients=*/false);
  slot_of_ = slots.of_unit;
  for (const std::int64_t count : slots.elements) {
    slots_.push_back({messages.take({count}, store.values().dtype)});
  }
}

void ParameterGatherer::before_use(Stream& stream, int unit, int next) {
  const int bucket = store_.units()[static_cast<std::size_t>(unit)].bucket;
  published_[static_cast<std::size_t>(bucket)].wait();
  if (slots_.empty() || slot_of_[static_cast<std::size_t>(unit)] < 0) return;
  gather(stream, unit);
  slots_[static_cast<std::size_t>(slot_of_[static_cast<std::size_t>(unit)])].transfer.wait();
  const auto other_slot = [&](int other) {
    return slot_of_[static_cast<std::size_t>(other)] != slot_of_[static_cast<std::size_t>(unit)];
  };
  if (next >= 0 && other_slot(next)) gather(stream, next);
}

bool ParameterGatherer::is_publishing() const {
  return std::any_of(published_.begin(), published_.end(),
                     [](const Transfer& bucket) { return bucket.is_pending(); });
}

// No-op if the values are present or in flight.
void ParameterGatherer::gather(Stream& stream, int unit) {
  Slot& slot = slots_[static_cast<std::size_t>(slot_of_[static_cast<std::size_t>(unit)])];
  if (slot.unit == unit) return;
  slot.transfer.wait();
  const ParamStore::Bucket& bucket = store_.buckets()[static_cast<std::size_t>(
      store_.units()[static_cast<std::size_t>(unit)].bucket)];
  const Tensor whole = slot.memory.slice(0, bucket.count());
  slot.transfer =
      ranks_.of(bucket.group)
          .shard.start_all_gather(stream, whole, store_.own_part(store_.values(), bucket, true));
  slot.unit = unit;
  store_.place_values(unit, whole);
}

void ParameterGatherer::finish() {
  for (Transfer& bucket : published_) bucket.wait();
}

void ParameterGatherer::publish(Stream& stream) {
  if (!slots_.empty()) {
    for (Slot& slot : slots_) slot.unit = -1;
    return;
  }
  if (in_common_) return ranks_.of(ParamGroup::kDense).shard.barrier(stream);
  for (std::size_t b = 0; b < store_.buckets().size(); ++b) {
    const ParamStore::Bucket& bucket = store_.buckets()[b];
    if (bucket.gradient_only || bucket.parts == 1) continue;
    published_[b] =
        ranks_.of(bucket.group)
            .shard.start_all_gather(stream, store_.bucket_of(store_.values(), bucket),
                                    store_.own_part(store_.values(), bucket, /*shared=*/false));
  }
}

}  // namespace trireme
