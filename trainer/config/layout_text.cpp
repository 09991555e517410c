#include "trainer/config/layout_text.h"

#include <fmt/format.h>

#include "model/base/human.h"
#include "trainer/config/value_text.h"

namespace trireme {

std::string layout_text(const ParallelismConfig& layout) {
  std::string text;
  const auto axis = [&](std::int64_t degree, const std::string& what) {
    if (degree > 1) text += (text.empty() ? " = " : " x ") + what;
  };
  const std::string stages =
      layout.virtual_stages > 1 ? fmt::format(", {} stages each", layout.virtual_stages) : "";
  axis(layout.pipeline,
       fmt::format("pipeline {} ({}{})", layout.pipeline, layout.schedule, stages));
  axis(layout.data_replicate, fmt::format("data replicate {}", layout.data_replicate));
  axis(layout.data_shard, fmt::format("data shard {} (ZeRO-{})", layout.data_shard, layout.zero));
  axis(layout.context,
       layout.context_ulysses > 1
           ? fmt::format("context {} (ulysses {} x {} {})", layout.context, layout.context_ulysses,
                         name_of_value(layout.context_method),
                         layout.context / layout.context_ulysses)
           : fmt::format("context {} ({})", layout.context, name_of_value(layout.context_method)));
  axis(layout.tensor, fmt::format("tensor {}", layout.tensor));
  if (layout.sequence) text += " with sequence parallelism";
  if (layout.expert > 1) {
    text += fmt::format("; experts divided among {} data ranks", layout.expert);
  }
  return fmt::format("{}{}", world_size(layout), text);
}

std::string active_text(const ModelConfig& model) {
  if (model.num_experts == 0) return {};
  return fmt::format(", {} active per token", grouped(active_parameter_count(model)));
}

}  // namespace trireme
