#include "trainer/tools/verify/tensors.h"

#include <string_view>

namespace trireme::verify {
namespace {

std::int64_t rows_of_part(std::string_view name, const ModelConfig& model) {
  for (const std::string_view part : {".q.", ".k.", ".v."}) {
    if (name.find(part) != std::string_view::npos) return model.head_dim;
  }
  return 0;
}

}  // namespace

Tensors::Tensors(const ParamStore& whole, const ModelConfig& model) {
  std::size_t weights = 0;
  for (const Weight& weight : whole.weights()) {
    for (const Param& param : weight.parts) {
      const auto& [name, shape] = std::pair(param.spec.name, param.spec.shape);
      by_name_.emplace(name, entries_.size());
      entries_.push_back({name, shape, elements_, weights, rows_of_part(name, model)});
      elements_ += shape.count();
    }
    ++weights;
  }
}

const char* name_of(Quantity quantity) {
  switch (quantity) {
    case Quantity::kGradient:
      return "gradient";
    case Quantity::kMaster:
      return "weight";
    case Quantity::kValue:
      return "published weight";
    case Quantity::kMoment:
      return "moment";
  }
  return "";
}

std::vector<LocalRange> held_by(const Subject& subject, const Tensors& tensors, Quantity quantity,
                                const std::string& moment) {
  const ParamStore& params = subject.engine().model().params();
  const RankGroups& groups = subject.groups();
  const auto is_first = [&](const Param& param) {
    return param.is_primary_replica() && groups.data_ranks(param.spec.group).replicate.rank() == 0;
  };
  std::vector<LocalRange> all;
  if (quantity == Quantity::kMoment) {
    for (const ShardedOptimizer::State& state : subject.engine().model().optimizer().states()) {
      if (state.name != moment) continue;
      for (const ParamShard* shard : state.shards) {
        if (shard->count() == 0) continue;
        all.push_back({tensors.index(shard->param->spec.name), shard->param, shard->first,
                       state.of(*shard), is_first(*shard->param)});
      }
    }
    return all;
  }
  if (quantity != Quantity::kValue) {
    for (const ParamShard& shard : params.shards()) {
      if (shard.count() == 0) continue;
      all.push_back({tensors.index(shard.param->spec.name), shard.param, shard.first,
                     quantity == Quantity::kGradient ? shard.grad : shard.master,
                     is_first(*shard.param)});
    }
    return all;
  }
  if (params.sharing().values) return all;
  for (const Weight& weight : params.weights()) {
    for (const Param& param : weight.parts) {
      const std::int64_t count = param.box.extent.count();
      if (count == 0) continue;
      all.push_back({tensors.index(param.spec.name), &param, 0, param.value.reshaped({count}),
                     is_first(param) && groups.data_ranks(param.spec.group).shard.rank() == 0});
    }
  }
  return all;
}

std::vector<LocalRange> not_owned_by(const Subject& subject, const Tensors& tensors) {
  const ParamStore& params = subject.engine().model().params();
  std::vector<LocalRange> all;
  if (params.sharing().gradients) return all;
  for (const Weight& weight : params.weights()) {
    for (const Param& param : weight.parts) {
      const Tensor grad = params.grads().slice(param.offset, param.box.extent.count());
      std::int64_t from = 0;
      const auto add_until = [&](std::int64_t end) {
        if (end > from) {
          all.push_back(
              {tensors.index(param.spec.name), &param, from, grad.slice(from, end - from), false});
        }
      };
      for (const ParamShard& shard : params.shards()) {
        if (shard.param != &param) continue;
        add_until(shard.first);
        from = shard.first + shard.count();
      }
      add_until(grad.count());
    }
  }
  return all;
}

}  // namespace trireme::verify
