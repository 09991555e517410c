#include "trainer/engine/state_bytes.h"

#include <algorithm>
#include <string_view>

#include "trainer/engine/model_state.h"

namespace trireme {
namespace {

// "layers.3.mlp.down" -> ("blocks", "mlp.down"), "layers.3.mlp.experts.5.up" -> ("experts",
// "mlp.experts.up"), "head.weight" -> ("head", "weight").
ParamBytes named_bytes(std::string_view name, const ParamStore::Unit& unit) {
  const auto is_number = [](std::string_view part) {
    return part.find_first_not_of("0123456789") == std::string_view::npos;
  };
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    parts.push_back(name.substr(begin, end - begin));
    begin = end + 1;
  }
  const bool is_expert = unit.group == ParamGroup::kExperts;
  ParamBytes bytes{.unit = unit.layer < 0 ? std::string(parts.front())
                           : is_expert    ? "experts"
                                          : "blocks",
                   .name = {}};
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (!is_number(parts[i])) bytes.name += (bytes.name.empty() ? "" : ".") + std::string(parts[i]);
  }
  return bytes;
}

}  // namespace

StateBytes state_bytes(const ModelState& model) {
  const ParamStore& params = model.params();
  const Sharing& sharing = params.sharing();
  StateBytes all;
  const auto add = [&](const Weight& weight, bool has_values) {
    const ParamStore::Unit& unit = params.units()[static_cast<std::size_t>(weight.unit)];
    const ParamStore::Bucket& bucket = params.buckets()[static_cast<std::size_t>(unit.bucket)];
    const std::int64_t own_begin = bucket.begin + bucket.owned * bucket.part;
    for (const Param& param : weight.parts) {
      ParamBytes bytes = named_bytes(param.spec.name, unit);
      auto found = std::find_if(all.params.begin(), all.params.end(), [&](const ParamBytes& other) {
        return other.unit == bytes.unit && other.name == bytes.name;
      });
      if (found == all.params.end()) found = all.params.insert(found, std::move(bytes));
      const std::int64_t count = param.box.extent.count();
      const std::int64_t owned =
          std::max<std::int64_t>(0, std::min(param.offset + count, own_begin + bucket.part) -
                                        std::max(param.offset, own_begin));
      const auto size = [&](const Tensor& flat, bool is_sharded) {
        return static_cast<std::size_t>(is_sharded ? owned : count) * size_of(flat.dtype);
      };
      found->gradients += size(params.grads(), sharing.gradients);
      if (!has_values) continue;
      found->weights += size(params.values(), sharing.values);
      if (params.has_masters()) found->masters += size(params.masters(), sharing.masters);
    }
  };
  for (const Weight& weight : params.weights()) {
    add(weight, true);
    if (weight.codes) all.codes += 2 * weight.codes.plain.bytes();
  }
  for (const ParamStore::Apart& apart : params.apart()) add(apart.weight, false);
  for (const ShardedOptimizer::State& state : model.optimizer().states()) {
    all.optimizer.emplace_back(state.name, state.flat.bytes());
  }
  return all;
}

}  // namespace trireme
