#include "trainer/engine/planned_rank.h"

#include <fmt/format.h>

#include "trainer/engine/engine_spec.h"

namespace trireme {

StepPlan plan_of_rank(const RunConfig& config, Device device, int rank) {
  Traffic sent;
  const RankGroups groups(rank, config.parallelism, config.model, device, sent);
  return plan_step(engine_spec(config), groups, device);
}

void require_foretold(const RunConfig& config, const RankGroups& groups, Device device,
                      const MemoryPlan& plan) {
  const int rank = groups.all->rank();
  MemoryPlan foretold = plan_of_rank(config, device, rank).memory;
  if (device.is_cuda()) foretold.buffers = plan.buffers;
  if (foretold == plan) return;
  throw Error(fmt::format("trireme plan foretells other memory for rank {}: {}", rank,
                          differences(foretold, plan)));
}

std::string differences(const MemoryPlan& planned, const MemoryPlan& used) {
  std::string text;
  const auto add = [&](const char* name, std::size_t of_plan, std::size_t of_use) {
    if (of_plan == of_use) return;
    text +=
        fmt::format("{}{} {} planned, {} used", text.empty() ? "" : "; ", name, of_plan, of_use);
  };
  const auto of_plan = planned.classes(), of_use = used.classes();
  for (std::size_t i = 0; i < of_plan.size(); ++i) {
    add(of_plan[i].first, of_plan[i].second, of_use[i].second);
  }
  add("micro-batches in flight", planned.slots(), used.slots());
  add("of the host", planned.host_total(), used.host_total());
  return text;
}

}  // namespace trireme
