#include "model/params/param_store.h"

#include "model/device/cpu/threads.h"
#include "model/params/init.h"
#include "model/tensor/host_mirror.h"

namespace trireme {
namespace {

std::int64_t round_up(std::int64_t n, std::int64_t to) {
  return (n + to - 1) / to * to;
}

Shape held_shape(const Param& param) {
  return local_shape(param.spec.shape, param.spec.cut);
}

// The parts as one tensor: dimension 0 adds up, the others are equal.
Shape joined_shape(const std::vector<Param>& parts) {
  Shape shape = held_shape(parts.front());
  for (std::size_t i = 1; i < parts.size(); ++i) shape[0] += held_shape(parts[i])[0];
  return shape;
}

// `into`: in memory of the host.
template <class T>
void fill(const Param& param, Tensor into, std::uint64_t seed) {
  const ParamSpec& spec = param.spec;
  T* out = into.as<T>();
  const std::int64_t width = into.width();
  const std::int64_t logical_width = spec.shape[spec.shape.rank() - 1];
  const int last = spec.shape.rank() - 1;
  const ElementInit init(spec.init, spec.init_scale, seed, spec.name);
  const std::int64_t row0 = spec.shape.rank() == 2 ? param.box.from[0] : 0;
  cpu::parallel_for(into.rows(), 16, [&](std::int64_t first, std::int64_t end) {
    std::vector<float> line(static_cast<std::size_t>(width));
    for (std::int64_t row = first; row < end; ++row) {
      init.fill(static_cast<std::uint64_t>((row0 + row) * logical_width + param.box.from[last]),
                line);
      for (std::int64_t c = 0; c < width; ++c) {
        out[row * width + c] = static_cast<T>(line[static_cast<std::size_t>(c)]);
      }
    }
  });
}

}  // namespace

Weight& ParamStore::declare(std::vector<ParamSpec> parts) {
  Weight& weight = weights_.emplace_back();
  for (ParamSpec& spec : parts) {
    const int rank = spec.shape.rank();
    require(rank == 1 || rank == 2, "parameter ", spec.name, " has rank ", rank);
    require(spec.cut.padded == 0 || (spec.cut.dim == 0 && &spec == &parts.back()), "parameter ",
            spec.name, " is padded elsewhere than in the last rows of its weight");
    Param param{std::move(spec), {}, 0, {}, {}, {}};
    param.box = placement(param.spec.shape, param.spec.cut);
    weight.parts.push_back(std::move(param));
  }
  return weight;
}

Weight& ParamStore::declare_apart(const Weight& of) {
  return apart_.emplace_back(Apart{&of, of}).weight;
}

void ParamStore::allocate(Places places, DType compute, std::int64_t multiple) {
  const DType master_type = accumulator_of(compute);
  std::int64_t total = 0;
  for (Weight& weight : weights_) {
    total = round_up(total, kAlignment);
    for (Param& param : weight.parts) {
      param.offset = total;
      total += held_shape(param).count();
    }
  }
  total = round_up(total, multiple);

  values_ = places.weights.take({total}, compute);
  masters_ = compute == master_type ? values_ : places.masters.take({total}, master_type);
  if (places.gradients) grads_ = places.gradients->take({total}, master_type);
  for (Weight& weight : weights_) {
    const Shape joined = joined_shape(weight.parts);
    const std::int64_t first = weight.parts.front().offset;
    weight.value = values_.slice(first, joined.count()).reshaped(joined);
    if (grads_) weight.grad = grads_.slice(first, joined.count()).reshaped(joined);
    for (Param& param : weight.parts) {
      const Shape shape = param.box.extent;
      param.value = values_.slice(param.offset, shape.count()).reshaped(shape);
      param.master = masters_.slice(param.offset, shape.count()).reshaped(shape);
      if (grads_) param.grad = grads_.slice(param.offset, shape.count()).reshaped(shape);
    }
  }
  for (Apart& apart : apart_) {
    apart.weight.value = apart.of->value;
    if (places.gradients) {
      apart.weight.grad = places.gradients->take(apart.of->grad.shape, apart.of->grad.dtype);
    }
  }
}

void ParamStore::initialize(std::uint64_t seed) {
  Stream stream(masters_.device);
  const HostMirror masters(stream, masters_), values(stream, values_);
  const auto part = [](const HostMirror& flat, const Param& param) {
    return flat.host().slice(param.offset, param.box.extent.count()).reshaped(param.box.extent);
  };
  for (const Weight& weight : weights_) {
    for (const Param& param : weight.parts) {
      if (masters_.dtype == DType::kF64) {
        fill<double>(param, part(masters, param), seed);
      } else {
        fill<float>(param, part(masters, param), seed);
      }
      if (values_.dtype == DType::kBf16) fill<Bf16>(param, part(values, param), seed);
    }
  }
  masters.upload(stream);
  if (has_masters()) values.upload(stream);
  stream.synchronize();
}

void ParamStore::expect_gradients() {
  for (Weight& weight : weights_) weight.stale = true;
  for (Apart& apart : apart_) apart.weight.stale = true;
}

void ParamStore::require_gradients() const {
  for (const Weight& weight : weights_) {
    require(!weight.stale, "parameter ", weight.parts.front().spec.name, " got no gradient");
  }
}

std::int64_t ParamStore::parameter_count() const {
  std::int64_t count = 0;
  for (const Weight& weight : weights_) {
    for (const Param& param : weight.parts) count += param.box.extent.count();
  }
  return count;
}

}  // namespace trireme
