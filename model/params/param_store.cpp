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

Shape held_shape(const Param& param) {
  return local_shape(param.spec.shape, param.spec.cut);
}

// Shape of the concatenated parts: dimension 0 adds up, the others are equal.
Shape joined_shape(const std::vector<Param>& parts) {
  Shape shape = held_shape(parts.front());
  for (std::size_t i = 1; i < parts.size(); ++i) shape[0] += held_shape(parts[i])[0];
  return shape;
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
  return static_cast<int>(units_.size()) - 1;
}

Weight& ParamStore::declare(std::vector<ParamSpec> parts) {
  if (units_.empty()) begin_unit();
  Weight& weight = weights_.emplace_back();
  weight.unit = static_cast<int>(units_.size()) - 1;
  for (ParamSpec& spec : parts) {
    const int rank = spec.shape.rank();
    require(rank == 1 || rank == 2, "parameter ", spec.name, " has rank ", rank);
    require(spec.cut.padded == 0 || (spec.cut.dim == 0 && &spec == &parts.back()), "parameter ",
            spec.name, " has padding outside the last rows of its weight");
    Param param{.spec = std::move(spec), .box = {}};
    param.box = placement(param.spec.shape, param.spec.cut);
    weight.parts.push_back(std::move(param));
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
    size = round_up(size, kAlignment);
    for (Param& param : weight.parts) {
      param.offset = size;  // relative to the unit, whose offset is not known yet
      size += held_shape(param).count();
    }
  };
  for (Weight& weight : weights_) measure(weight);
  for (Apart& apart : apart_) measure(apart.weight);
  for (std::size_t u = 0; u < units_.size(); ++u) units_[u].end = round_up(sizes[u], kGrain);
  form_buckets();
  const auto place = [&](Weight& weight) {
    for (Param& param : weight.parts) {
      param.offset += units_[static_cast<std::size_t>(weight.unit)].begin;
    }
  };
  for (Weight& weight : weights_) place(weight);
  for (Apart& apart : apart_) place(apart.weight);
}

// Gradients become final in reverse order of declaration: the last units form the first bucket that
// can be reduced. Separate gradients are last, as they have no values.
void ParamStore::form_buckets() {
  buckets_.clear();
  const auto units = static_cast<int>(units_.size());
  const auto unit = [&](int u) -> Unit& { return units_[static_cast<std::size_t>(u)]; };
  std::vector<int> with_values;
  for (int u = 0; u < units; ++u) {
    if (!unit(u).gradient_only) with_values.push_back(u);
  }
  std::int64_t filled = 0;
  for (auto u = with_values.rbegin(); u != with_values.rend(); ++u) {
    const bool opens = buckets_.empty() || filled >= sharing_.bucket || unit(*u).alone ||
                       unit(buckets_.back().first_unit).alone ||
                       buckets_.back().first_unit != *u + 1;
    if (opens) {
      buckets_.push_back({.first_unit = *u, .end_unit = *u + 1});
      filled = 0;
    }
    buckets_.back().first_unit = *u;
    filled += unit(*u).end;
  }
  std::reverse(buckets_.begin(), buckets_.end());
  for (int u = 0; u < units; ++u) {
    if (unit(u).gradient_only) {
      buckets_.push_back({.first_unit = u, .end_unit = u + 1, .gradient_only = true});
    }
  }
  flat_count_ = own_count_ = gradient_count_ = own_gradient_count_ = 0;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    Bucket& bucket = buckets_[b];
    bucket.begin = gradient_count_;
    bucket.own = own_gradient_count_;
    std::int64_t size = 0;
    for (int u = bucket.first_unit; u < bucket.end_unit; ++u) {
      const std::int64_t length = unit(u).end;
      unit(u).begin = bucket.begin + size;
      unit(u).end = unit(u).begin + length;
      unit(u).bucket = static_cast<int>(b);
      size += length;
    }
    bucket.part = round_up((size + sharing_.parts - 1) / sharing_.parts, kGrain);
    gradient_count_ += bucket.part * sharing_.parts;
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
    for (int unit = bucket.first_unit; unit < bucket.end_unit; ++unit) {
      if (!bucket.gradient_only && !sharing.values) place_values(unit, bucket_of(values_, bucket));
      if (grads_ && !sharing.gradients) place_gradients(unit, bucket_of(grads_, bucket));
    }
  }
  if (!sharing.masters) {
    for (Weight& weight : weights_) {
      for (Param& param : weight.parts) {
        const Shape shape = param.box.extent;
        param.master = masters_.slice(param.offset, shape.count()).reshaped(shape);
      }
    }
  }
  list_shards();
}

template <class Visit>
void ParamStore::for_each_weight(int unit, const Visit& visit) {
  for (Weight& weight : weights_) {
    if (weight.unit == unit) visit(weight);
  }
  for (Apart& apart : apart_) {
    if (apart.weight.unit == unit) visit(apart.weight);
  }
}

void ParamStore::place_values(int unit, Tensor at) {
  const std::int64_t begin =
      buckets_[static_cast<std::size_t>(units_[static_cast<std::size_t>(unit)].bucket)].begin;
  for_each_weight(unit, [&](Weight& weight) {
    const Shape joined = joined_shape(weight.parts);
    weight.value = at.slice(weight.parts.front().offset - begin, joined.count()).reshaped(joined);
    for (Param& param : weight.parts) {
      const Shape shape = param.box.extent;
      param.value = at.slice(param.offset - begin, shape.count()).reshaped(shape);
    }
    for (Apart& apart : apart_) {
      if (apart.of == &weight) apart.weight.value = weight.value;
    }
  });
}

void ParamStore::place_gradients(int unit, Tensor at) {
  const std::int64_t begin =
      buckets_[static_cast<std::size_t>(units_[static_cast<std::size_t>(unit)].bucket)].begin;
  for_each_weight(unit, [&](Weight& weight) {
    const Shape joined = joined_shape(weight.parts);
    weight.grad = at.slice(weight.parts.front().offset - begin, joined.count()).reshaped(joined);
    for (Param& param : weight.parts) {
      const Shape shape = param.box.extent;
      param.grad = at.slice(param.offset - begin, shape.count()).reshaped(shape);
    }
  });
}

Tensor ParamStore::bucket_of(const Tensor& flat, const Bucket& bucket) const {
  return flat.slice(bucket.begin, bucket.part * sharing_.parts);
}

Tensor ParamStore::own_part(const Tensor& flat, const Bucket& bucket, bool shared) const {
  return flat.slice(shared ? bucket.own : bucket.begin + sharing_.part * bucket.part, bucket.part);
}

void ParamStore::list_shards() {
  shards_.clear();
  for (const Weight& weight : weights_) {
    const Unit& unit = units_[static_cast<std::size_t>(weight.unit)];
    const Bucket& bucket = buckets_[static_cast<std::size_t>(unit.bucket)];
    const std::int64_t begin = bucket.begin + sharing_.part * bucket.part;
    for (const Param& param : weight.parts) {
      const std::int64_t from = std::max(param.offset, begin);
      const std::int64_t to =
          std::min(param.offset + param.box.extent.count(), begin + bucket.part);
      if (from >= to) continue;
      const auto range = [&](const Tensor& flat, bool shared) {
        return flat.slice(shared ? bucket.own + from - begin : from, to - from);
      };
      ParamShard& shard = shards_.emplace_back();
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
  } else if (has_masters() || sharing_.parts > 1) {
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
  for_each_weight(unit, [](Weight& weight) { weight.stale = true; });
}

void ParamStore::expect_gradients() {
  for (Weight& weight : weights_) weight.stale = true;
  for (Apart& apart : apart_) apart.weight.stale = true;
}

std::vector<bool> ParamStore::stale_gradients() const {
  std::vector<bool> stale;
  for (const Weight& weight : weights_) stale.push_back(weight.stale);
  for (const Apart& apart : apart_) stale.push_back(apart.weight.stale);
  return stale;
}

void ParamStore::set_stale_gradients(const std::vector<bool>& stale) {
  auto next = stale.begin();
  for (Weight& weight : weights_) weight.stale = *next++;
  for (Apart& apart : apart_) apart.weight.stale = *next++;
}

void ParamStore::require_gradients() const {
  for (const Weight& weight : weights_) {
    require(!weight.stale, "parameter ", weight.parts.front().spec.name, " got no gradient");
  }
}

}  // namespace trireme
