#include "model/params/param_store.h"

#include <algorithm>

#include "model/device/copy.h"
#include "model/ops/elementwise.h"
#include "model/params/init.h"

namespace trireme {
namespace {

std::int64_t round_up(std::int64_t n, std::int64_t to) {
  return (n + to - 1) / to * to;
}

// Whether they are in the same memory; `last` is replaced by the other.
bool is_again(Tensor& last, const Tensor& at) {
  const bool same = last && last.data == at.data && last.dtype == at.dtype;
  last = at;
  return same;
}

Shape held_shape(const Param& param) {
  return local_shape(param.spec.shape, param.spec.cut);
}

// Shape of the concatenated parts: dimension 0 adds up, the others are equal.
Shape joined_shape(const std::vector<Param>& parts) {
  Shape shape = held_shape(parts.front());
  for (std::size_t i = 1; i < parts.size(); ++i) shape[0] += held_shape(parts[i])[0];
  return shape;
}

// As slice, of a flat tensor that has them, in less time.
Tensor range_of(const Tensor& flat, std::int64_t first, std::int64_t n) {
  Tensor range = flat;
  range.data += static_cast<std::size_t>(first) * size_of(flat.dtype);
  range.shape[0] = n;
  return range;
}

// A parameter's box in flat elements, of which the first is the store's element `begin`; they
// contain it.
Tensor box_in(const Tensor& flat, const Param& param, std::int64_t begin) {
  const auto at = static_cast<std::size_t>(param.offset - begin);
  return {flat.data + at * size_of(flat.dtype), flat.dtype, param.box.extent, flat.device};
}

// Where a parameter's box, and its elements from `first` on, are in the whole.
ops::Strided place_of(const Param& param, std::int64_t first) {
  const Shape& shape = param.spec.shape;
  const int last = shape.rank() - 1;
  const std::int64_t row = last == 0 ? 0 : param.box.from[0];
  return {.first = first,
          .run = param.box.extent[last],
          .stride = shape[last],
          .start = row * shape[last] + param.box.from[last]};
}

}  // namespace

ParamShard ParamShard::slice(std::int64_t at, std::int64_t n) const {
  ParamShard part = *this;
  part.first += at;
  part.in_unit += at;
  const auto cut = [&](Tensor& tensor) {
    if (tensor) tensor = tensor.slice(at, n);
  };
  for (Tensor* tensor : {&part.value, &part.master, &part.grad, &part.average}) cut(*tensor);
  for (Tensor& each : part.state) cut(each);
  return part;
}

int ParamStore::begin_unit(int layer, bool alone) {
  units_.push_back({.layer = layer, .alone = alone});
  return begun_ = static_cast<int>(units_.size()) - 1;
}

int ParamStore::unit_of(ParamGroup group) {
  if (begun_ < 0) begin_unit();
  if (group == ParamGroup::kDense) return begun_;
  if (units_[begun_].experts < 0) {
    units_.push_back({.layer = units_[begun_].layer, .group = group});
    units_[begun_].experts = static_cast<int>(units_.size()) - 1;
  }
  return units_[begun_].experts;
}

Weight& ParamStore::declare(ParamSpecs parts) {
  Weight& weight = weights_.emplace_back(Weight{.specs = std::move(parts)});
  const std::vector<ParamSpec>& specs = *weight.specs;
  weight.unit = unit_of(specs.front().group);
  weight.parts.reserve(specs.size());
  for (const ParamSpec& spec : specs) {
    const int rank = spec.shape.rank();
    require(rank == 1 || rank == 2, "parameter ", spec.name, " has rank ", rank);
    require(spec.cut.padded == 0 || (spec.cut.dim == 0 && &spec == &specs.back()), "parameter ",
            spec.name, " has padding outside the last rows of its weight");
    const ParamSpec* const before = weight.parts.empty() ? nullptr : &weight.parts.back().spec;
    const bool is_placed = before && before->shape == spec.shape && before->cut == spec.cut;
    weight.parts.push_back(
        {.spec = spec,
         .box = is_placed ? weight.parts.back().box : placement(spec.shape, spec.cut)});
  }
  return weight;
}

Weight& ParamStore::declare_apart(const Weight& of) {
  Weight& weight = apart_.emplace_back(Apart{&of, of}).weight;
  units_.push_back({.alone = true, .gradient_only = true});
  weight.unit = static_cast<int>(units_.size()) - 1;
  return weight;
}

void ParamStore::lay_out(const Sharing& sharing) {
  sharing_ = sharing;
  std::vector<std::int64_t> sizes(units_.size());
  const auto measure = [&](Weight& weight) {
    std::int64_t& size = sizes[static_cast<std::size_t>(weight.unit)];
    // Norms sum over chunks of an expert's parameters, which no shard's end may cut.
    const bool is_expert = units_[weight.unit].group == ParamGroup::kExperts;
    size = round_up(size, is_expert ? kGrain : kAlignment);
    for (Param& param : weight.parts) {
      param.offset = size;  // relative to the unit, whose offset is not known yet
      size += held_shape(param).count();
    }
  };
  for (Weight& weight : weights_) measure(weight);
  for (Apart& apart : apart_) measure(apart.weight);
  for (std::size_t u = 0; u < units_.size(); ++u) units_[u].end = round_up(sizes[u], kGrain);
  form_buckets();
  weights_of_unit_.assign(units_.size(), {});
  const auto list = [&](Weight& weight) {
    weights_of_unit_[static_cast<std::size_t>(weight.unit)].push_back(&weight);
  };
  for (Weight& weight : weights_) list(weight);
  for (Apart& apart : apart_) list(apart.weight);
  const auto place = [&](Weight& weight) {
    for (Param& param : weight.parts) {
      param.offset += units_[static_cast<std::size_t>(weight.unit)].begin;
    }
  };
  for (Weight& weight : weights_) place(weight);
  for (Apart& apart : apart_) place(apart.weight);
}

// Gradients become final in reverse order of declaration: the last units form the first bucket that
// can be reduced.
void ParamStore::group_units(ParamGroup group) {
  const bool is_dense = group == ParamGroup::kDense;
  const std::size_t first = buckets_.size();
  std::int64_t filled = 0;
  for (int u = static_cast<int>(units_.size()) - 1; u >= 0; --u) {
    const Unit& unit = units_[u];
    if (unit.group != group || unit.gradient_only) continue;
    const bool opens = buckets_.size() == first || filled >= sharing_.bucket || unit.alone ||
                       units_[buckets_.back().units.front()].alone;
    if (opens) {
      buckets_.push_back({.group = group,
                          .parts = is_dense ? sharing_.parts : sharing_.expert_parts,
                          .owned = is_dense ? sharing_.part : sharing_.expert_part});
      filled = 0;
    }
    std::vector<int>& units = buckets_.back().units;
    units.insert(units.begin(), u);
    filled += unit.end;
  }
  std::reverse(buckets_.begin() + static_cast<std::ptrdiff_t>(first), buckets_.end());
}

// Separate gradients are last, as they have no values.
void ParamStore::form_buckets() {
  buckets_.clear();
  group_units(ParamGroup::kDense);
  group_units(ParamGroup::kExperts);
  for (int u = 0; u < static_cast<int>(units_.size()); ++u) {
    if (units_[u].gradient_only) {
      buckets_.push_back(
          {.gradient_only = true, .units = {u}, .parts = sharing_.parts, .owned = sharing_.part});
    }
  }
  flat_count_ = own_count_ = gradient_count_ = own_gradient_count_ = 0;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    Bucket& bucket = buckets_[b];
    bucket.begin = gradient_count_;
    bucket.own = own_gradient_count_;
    std::int64_t size = 0;
    for (const int u : bucket.units) {
      Unit& unit = units_[u];
      const std::int64_t length = unit.end;
      unit.begin = bucket.begin + size;
      unit.end = unit.begin + length;
      unit.bucket = static_cast<int>(b);
      size += length;
    }
    bucket.part = round_up((size + bucket.parts - 1) / bucket.parts, kGrain);
    gradient_count_ += bucket.count();
    own_gradient_count_ += bucket.part;
    if (bucket.gradient_only) continue;
    flat_count_ = gradient_count_;
    own_count_ = own_gradient_count_;
  }
}

void ParamStore::allocate(Places places, DType compute, const Sharing& sharing) {
  lay_out(sharing);
  const DType master_type = accumulator_of(compute);
  require(compute != master_type || sharing.values == sharing.masters,
          "values without separate masters must be sharded like them");
  const auto taken = [](Arena& arena, std::int64_t count, DType dtype) {
    return arena.take({count}, dtype);
  };
  values_at_.assign(units_.size(), {});
  gradients_at_.assign(units_.size(), {});
  values_ = taken(places.weights, sharing.values ? own_count_ : flat_count_, compute);
  masters_ = compute == master_type
                 ? values_
                 : taken(places.masters, sharing.masters ? own_count_ : flat_count_, master_type);
  for (Weight& weight : weights_) {
    const ParamSpec& spec = weight.parts.front().spec;
    if (spec.is_buffer) weight.buffer = taken(places.weights, spec.shape.count(), DType::kF32);
  }
  if (places.gradients) {
    grads_ = taken(*places.gradients, sharing.gradients ? own_gradient_count_ : gradient_count_,
                   master_type);
  }
  for (const Bucket& bucket : buckets_) {
    const bool has_values = !sharing.values || bucket.parts == 1;
    for (const int unit : bucket.units) {
      if (!bucket.gradient_only && has_values) {
        place_values(unit, sharing.values ? own_part(values_, bucket, /*shared=*/true)
                                          : bucket_of(values_, bucket));
      }
      if (grads_ && !sharing.gradients) place_gradients(unit, bucket_of(grads_, bucket));
    }
  }
  if (!sharing.masters) {
    for (Weight& weight : weights_) {
      for (Param& param : weight.parts) param.master = box_in(masters_, param, 0);
    }
  }
  list_shards();
}

void ParamStore::place_values(int unit, Tensor at) {
  if (is_again(values_at_[static_cast<std::size_t>(unit)], at)) return;
  const std::int64_t begin =
      buckets_[static_cast<std::size_t>(units_[static_cast<std::size_t>(unit)].bucket)].begin;
  for (Weight* const placed : weights_of(unit)) {
    Weight& weight = *placed;
    const Shape joined = joined_shape(weight.parts);
    weight.value = at.slice(weight.parts.front().offset - begin, joined.count()).reshaped(joined);
    for (Param& param : weight.parts) param.value = box_in(at, param, begin);
    for (Apart& apart : apart_) {
      if (apart.of == &weight) apart.weight.value = weight.value;
    }
  }
}

void ParamStore::place_gradients(int unit, Tensor at) {
  if (is_again(gradients_at_[static_cast<std::size_t>(unit)], at)) return;
  const std::int64_t begin =
      buckets_[static_cast<std::size_t>(units_[static_cast<std::size_t>(unit)].bucket)].begin;
  for (Weight* const placed : weights_of(unit)) {
    Weight& weight = *placed;
    const Shape joined = joined_shape(weight.parts);
    weight.grad = at.slice(weight.parts.front().offset - begin, joined.count()).reshaped(joined);
    for (Param& param : weight.parts) param.grad = box_in(at, param, begin);
  }
}

void ParamStore::place_gradients(int unit, const std::vector<Tensor>& by_rank) {
  for (Weight* const weight : weights_of(unit)) weight->grads_by_rank.clear();
  for (auto at = by_rank.rbegin(); at != by_rank.rend(); ++at) {
    place_gradients(unit, *at);
    for (Weight* const weight : weights_of(unit)) {
      weight->grads_by_rank.insert(weight->grads_by_rank.begin(), weight->grad);
    }
  }
}

Tensor ParamStore::bucket_of(const Tensor& flat, const Bucket& bucket) const {
  return flat.slice(bucket.begin, bucket.count());
}

Tensor ParamStore::own_part(const Tensor& flat, const Bucket& bucket, bool shared) const {
  return flat.slice(shared ? bucket.own : bucket.begin + bucket.owned * bucket.part, bucket.part);
}

void ParamStore::list_shards() {
  shards_.clear();
  std::size_t most = 0;
  for (const Weight& weight : weights_) most += weight.parts.size();
  shards_.reserve(most);
  for (const Weight& weight : weights_) {
    const Unit& unit = units_[static_cast<std::size_t>(weight.unit)];
    const Bucket& bucket = buckets_[static_cast<std::size_t>(unit.bucket)];
    const std::int64_t begin = bucket.begin + bucket.owned * bucket.part;
    for (const Param& param : weight.parts) {
      const std::int64_t from = std::max(param.offset, begin);
      const std::int64_t to =
          std::min(param.offset + param.box.extent.count(), begin + bucket.part);
      if (from >= to) continue;
      const auto range = [&](const Tensor& flat, bool shared) {
        return range_of(flat, shared ? bucket.own + from - begin : from, to - from);
      };
      ParamShard& shard = shards_.emplace_back();
      shard.weight = &weight;
      shard.param = &param;
      shard.first = from - param.offset;
      shard.in_unit = from - unit.begin;
      shard.value = range(values_, sharing_.values);
      shard.master = range(masters_, has_masters() ? sharing_.masters : sharing_.values);
      if (grads_) shard.grad = range(grads_, sharing_.gradients);
    }
  }
  std::stable_partition(shards_.begin(), shards_.end(),
                        [](const ParamShard& shard) { return !shard.param->spec.is_buffer; });
}

void ParamStore::fill_buffers(Stream& stream) {
  for (Weight& weight : weights_) {
    if (!weight.buffer) continue;
    ops::zero(stream, weight.buffer);
    for (const ParamShard& shard : shards_) {
      if (shard.param != &weight.parts.front()) continue;
      const Tensor to = weight.buffer.slice(shard.first, shard.count());
      if (shard.master.dtype == to.dtype) {  // the master may be in host memory
        copy_bytes(stream, to.data, shard.master.data, to.bytes());
      } else {
        ops::cast(stream, to, shard.master);
      }
    }
  }
}

void ParamStore::initialize(std::uint64_t seed) {
  Stream stream(values_.device), master_stream(masters_.device);
  const auto fill = [&](Stream& on, const Param& param, std::int64_t first, const Tensor& out) {
    const ParamSpec& spec = param.spec;
    ElementInit(spec.init, spec.init_scale, seed, spec.name).fill(on, out, place_of(param, first));
  };
  for (const ParamShard& shard : shards_)
    fill(master_stream, *shard.param, shard.first, shard.master);
  if (sharing_.values) {
    for (const ParamShard& shard : shards_) fill(stream, *shard.param, shard.first, shard.value);
  } else if (has_masters() || sharing_.parts > 1 || sharing_.expert_parts > 1) {
    for (const Weight& weight : weights_) {
      for (const Param& param : weight.parts) {
        fill(stream, param, 0, values_.slice(param.offset, param.box.extent.count()));
      }
    }
  }
  master_stream.synchronize();
  fill_buffers(stream);
  stream.synchronize();
}

void ParamStore::expect_gradients(int unit) {
  for (Weight* const weight : weights_of(unit)) weight->stale = true;
}

void ParamStore::expect_gradients() {
  for (Weight& weight : weights_) weight.stale = true;
  for (Apart& apart : apart_) apart.weight.stale = true;
}

void ParamStore::expect_codes() {
  for (Weight& weight : weights_) weight.codes.stale = true;
}

std::vector<bool> ParamStore::stale() const {
  std::vector<bool> stale;
  for (const Weight& weight : weights_) stale.push_back(weight.stale);
  for (const Apart& apart : apart_) stale.push_back(apart.weight.stale);
  for (const Weight& weight : weights_) stale.push_back(weight.codes.stale);
  return stale;
}

void ParamStore::set_stale(const std::vector<bool>& stale) {
  auto next = stale.begin();
  for (Weight& weight : weights_) weight.stale = *next++;
  for (Apart& apart : apart_) apart.weight.stale = *next++;
  for (Weight& weight : weights_) weight.codes.stale = *next++;
}

void ParamStore::require_gradients() const {
  for (const Weight& weight : weights_) {
    require(!weight.stale, "parameter ", weight.parts.front().spec.name, " got no gradient");
  }
}

}  // namespace trireme
