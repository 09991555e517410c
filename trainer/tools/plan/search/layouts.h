#pragma once
#include <array>
#include <functional>
#include <set>
#include <tuple>
#include <vector>

#include "parallel/pipeline/registry.h"
#include "trainer/config/run_config.h"

namespace trireme {

// Context ranks have at least so many tokens of a sequence.
inline constexpr std::int64_t kLeastShard = 2048;

// Calls `visit` with one layout of every family over `ranks` ranks: those that differ only by their
// schedule and by which data ranks are replicas. Tensor-parallel groups do not cross nodes of
// `node` ranks, and use sequence parallelism wherever the tokens are divisible, which sends no more
// and needs less memory. The layout visited has no replicas and schedule 1F1B. Many layouts violate
// config rules. Returns the numbers of data ranks that do not divide the batch.
std::set<std::int64_t> each_family(const RunConfig& config, std::int64_t ranks, std::int64_t node,
                                   const std::function<void(const RunConfig&)>& visit);

// The degrees of parallelism.data_replicate (HSDP) of a family. The shard groups have any power of
// two of ranks, or all of a node.
std::vector<std::int64_t> replicate_degrees(const RunConfig& family, std::int64_t node);

// What a layout's ops depend on along the context axis: ranks, method, ranks that exchange heads.
using ContextShape = std::tuple<std::int64_t, ContextMethod, std::int64_t>;
inline ContextShape context_of(const ParallelismConfig& layout) {
  return {layout.context, layout.context_method, layout.context_ulysses};
}

// What the ranks are divided among: degrees of pipeline, tensor, context and expert parallelism,
// and the number of data ranks. Layouts of one shape differ by their schedules, ZeRO stages,
// replicas, context methods, micro-batches and recomputation.
using LayoutShape = std::array<std::int64_t, 5>;
inline LayoutShape shape_of(const ParallelismConfig& layout) {
  return {layout.pipeline, layout.tensor, layout.context, layout.expert, data_ranks(layout)};
}

struct ScheduleChoice {
  const NamedSchedule* schedule;
  std::int64_t virtual_stages;
};
// The schedules of a family. Virtual stages may have different numbers of layers.
std::vector<ScheduleChoice> schedule_choices(const RunConfig& family);

// The layout of a family with these replicas and this schedule.
void set_member(RunConfig& family, std::int64_t replicate, const ScheduleChoice& choice);

// Every layout of every family.
void each_layout(const RunConfig& config, std::int64_t ranks, std::int64_t node,
                 const std::function<void(const RunConfig&)>& visit);

}  // namespace trireme
