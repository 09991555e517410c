#include "trainer/tools/plan/estimate/kind_names.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/stage/layer_config.h"

namespace trireme {

std::vector<std::string> kind_names(const Workload& work, const StepOps& ops) {
  const std::vector<LayerConfig> layers = layer_configs(work.spec.model);
  const auto is_mixed = std::any_of(layers.begin(), layers.end(), [&](const LayerConfig& layer) {
    return !(layer == layers.front());
  });
  std::vector<std::string> names;
  for (std::size_t kind = 0; kind < ops.kinds.size(); ++kind) {
    const auto first = static_cast<std::size_t>(
        std::find(ops.kind_of.begin(), ops.kind_of.end(), kind) - ops.kind_of.begin());
    const LayerConfig& layer = layers[first];
    std::string name = layer.has_experts ? "blocks with experts" : "blocks";
    if (layer.window > 0) name += fmt::format(", window {}", layer.window);
    if (is_mixed) name += fmt::format(", as layer {}", first);
    names.push_back(std::move(name));
  }
  return names;
}

}  // namespace trireme
