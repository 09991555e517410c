#include "trainer/tools/plan/estimate/estimate.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "model/base/error.h"
#include "parallel/pipeline/registry.h"
#include "parallel/pipeline/simulate.h"
#include "trainer/engine/pipeline_layout.h"
#include "trainer/tools/plan/device/matmul_format.h"
#include "trainer/tools/plan/estimate/stage_costs.h"

namespace trireme {
namespace {

class StepModel {
 public:
  StepModel(const Workload& work, const StepTimes& times, const DeviceProfile& device,
            const Simulation& simulation);
  StepEstimate estimate();

 private:
  const StageCosts& costs_of(int stage) const {
    return result_.sums.stages[static_cast<std::size_t>(stage)];
  }
  bool overlaps() const { return times_.overlaps_data && device_.network.overlaps; }
  void play();
  void fill_parts(int rank);
  double reduce_gradients();
  double publish_weights(std::size_t rank);
  std::int64_t ranks_that_wait_in_layers() const;
  double lockstep() const;
  void update(double computed);
  void fill_traffic(int rank);

  const Workload& work_;
  const StepTimes& times_;
  const DeviceProfile& device_;
  const Simulation& simulation_;
  StepEstimate result_;
};

StepModel::StepModel(const Workload& work, const StepTimes& times, const DeviceProfile& device,
                     const Simulation& simulation)
    : work_(work), times_(times), device_(device), simulation_(simulation) {
  result_.schedule = simulation.schedule();
  result_.layers_per_stage = divide_layers(work.spec, result_.schedule.stages);
  result_.sums.stages = costs_of_stages(times, work, device, result_.layers_per_stage);
}

void StepModel::play() {
  const ActionCosts costs = action_costs(result_.sums.stages, times_);
  if (device_.cores == 0) {
    result_.timeline = simulation_.run(costs);
    return;
  }
  const std::int64_t columns = work_.ranks() / work_.mesh.pipeline;
  const double of_node = device_.network.ranks_per_node;
  result_.timeline = simulate_sharing(result_.schedule, costs, [&](int busy) {
    return device_.pace(std::min(static_cast<double>(busy * columns), of_node));
  });
}

// Time of the rank by kind, up to the end of the pipeline.
void StepModel::fill_parts(int rank) {
  ListTime total;
  const auto times = static_cast<double>(work_.spec.micro_batches);
  for (const int stage : stages_of_rank(result_.schedule, rank)) {
    total += costs_of(stage).forward * times;
    total += costs_of(stage).backward * times;
  }
  if (device_.cores > 0) {
    const double worked = result_.timeline.makespan * (1 - result_.timeline.idle_fraction(rank));
    result_.sums.pace = worked / total.seconds();
    total = total * result_.sums.pace;
  }
  TimeParts& parts = result_.parts;
  parts.products = total.products;
  parts.attention = total.attention;
  parts.streams = total.streams;
  parts.messages = total.waiting;
  parts.offload = total.offload;
  parts.bubble = result_.timeline.makespan - total.seconds();
}

// Time at which the last rank has reduced its gradients. With ZeRO-0 and 1 a stage's gradients
// become final during its last backward, from its last layer to its first.
double StepModel::reduce_gradients() {
  double done = result_.timeline.makespan;
  for (std::size_t rank = 0; rank < result_.schedule.ranks.size(); ++rank) {
    const std::vector<Action>& actions = result_.schedule.ranks[rank];
    const std::vector<Timeline::Span>& spans = result_.timeline.ranks[rank];
    double free = overlaps() ? 0 : spans.back().end;
    MessageTime sum, finished;
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const Action& action = actions[i];
      if (!action.is_last_of_micro_batch() || action.micro_batch != work_.spec.micro_batches - 1) {
        continue;
      }
      const StageCosts& stage = costs_of(action.stage);
      const auto layers = static_cast<double>(stage.layers);
      const double each = (spans[i].end - spans[i].start) / layers;
      for (std::int64_t layer = 1; layer <= stage.layers; ++layer) {
        const double ready = spans[i].start + static_cast<double>(layer) * each;
        free = std::max(free, ready) + stage.reduced.seconds / layers;
      }
      sum += stage.reduced;
      finished += stage.finished;
    }
    const double exposed = std::max(0.0, free - spans.back().end);
    const double hidden = std::max(0.0, sum.seconds - exposed);
    done = std::max(
        done, spans.back().end + exposed + device_.network.occupied * hidden + finished.seconds);
    sum += finished;
    MessageTime& most = result_.sums.reduced;
    if (sum.seconds > most.seconds) most = sum;
  }
  return done;
}

// Exposed time of gathering a rank's updated weights, which the first forwards of the next step
// use layer by layer.
double StepModel::publish_weights(std::size_t rank) {
  const std::vector<Action>& actions = result_.schedule.ranks[rank];
  MessageTime sum;
  double late = 0;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const Action& action = actions[i];
    if (action.kind != Action::Kind::kForward || action.micro_batch != 0) continue;
    const StageCosts& stage = costs_of(action.stage);
    const auto layers = static_cast<double>(stage.layers);
    const MessageTime messages = stage.published * (1 / layers);
    const Timeline::Span& span = result_.timeline.ranks[rank][i];
    for (std::int64_t layer = 0; layer < stage.layers; ++layer) {
      sum += messages;
      const double used =
          span.start + (span.end - span.start) * static_cast<double>(layer) / layers;
      late = std::max(late, sum.seconds - used);
    }
  }
  MessageTime& most = result_.sums.published;
  if (sum.seconds > most.seconds) most = sum;
  return overlaps() ? late + device_.network.occupied * (sum.seconds - late) : sum.seconds;
}

void StepModel::update(double computed) {
  StepSums& sums = result_.sums;
  double updating = 0, copying = 0;
  for (std::size_t rank = 0; rank < result_.schedule.ranks.size(); ++rank) {
    double own = 0, copied = 0;
    for (const int stage : stages_of_rank(result_.schedule, static_cast<int>(rank))) {
      own += costs_of(stage).update;
      copied += costs_of(stage).state.seconds;
    }
    if (own > updating) {
      updating = own;
      sums.updating = static_cast<int>(rank);
    }
    copying = std::max(copying, copied);
    sums.publishing = std::max(sums.publishing, publish_weights(rank));
  }
  // Chunks of the state are fetched, updated and written back at the same time.
  sums.state = std::max(0.0, copying - updating);
  result_.parts.gradients = computed - result_.timeline.makespan;
  result_.parts.optimizer = updating + sums.publishing;
  result_.parts.offload += sums.state;
  result_.seconds = computed + result_.parts.waiting + updating + sums.state + sums.publishing;
}

void StepModel::fill_traffic(int rank) {
  const StepSums& sums = result_.sums;
  MessageTime tensor, context, expert, host, data = sums.reduced;
  data += sums.published;
  double pipeline_bytes = 0,
         data_waiting = result_.parts.gradients + std::min(sums.publishing, sums.published.seconds);
  const auto times = static_cast<double>(work_.spec.micro_batches);
  double waiting = result_.parts.messages;
  for (const int stage : stages_of_rank(result_.schedule, rank)) {
    const StageCosts& costs = costs_of(stage);
    for (const ListTime* time : {&costs.forward, &costs.backward}) {
      tensor += time->tensor * times;
      context += time->context * times;
      expert += time->expert * times;
    }
    data += costs.data * times;
    host += costs.saved * (2 * times);
    host += costs.state * 2;
    const int sides = (stage > 0 ? 1 : 0) + (stage + 1 < result_.schedule.stages ? 1 : 0);
    pipeline_bytes += times * sides * times_.boundary_bytes;
  }
  const auto add = [&](const char* axis, const MessageTime& messages, double waited) {
    if (messages.bytes <= 0) return;
    result_.traffic.push_back({axis, messages.bytes, messages.seconds,
                               std::clamp(messages.seconds - waited, 0.0, messages.seconds)});
  };
  // Attributes exposed time to the axes in the order in which they can overlap least.
  const double of_tensor = std::min(waiting, tensor.seconds);
  const double of_context = std::min(waiting - of_tensor, context.seconds);
  const double of_expert = std::min(waiting - of_tensor - of_context, expert.seconds);
  data_waiting += waiting - of_tensor - of_context - of_expert;
  add("tensor", tensor, of_tensor);
  add("context", context, of_context);
  add("expert", expert, of_expert);
  add("data", data, data_waiting);
  add("host", host, result_.parts.offload);
  if (work_.mesh.pipeline > 1) {
    const double seconds = collective_seconds(device_.network, Collective::kSend,
                                              group_of("pipeline_ends", work_), pipeline_bytes);
    // The first forward and the last backward cross all stages exposed.
    const double each = seconds * times_.boundary_bytes / pipeline_bytes;
    add("pipeline", {seconds, pipeline_bytes}, 2 * (result_.schedule.stages - 1) * each);
  }
}

// Of the largest groups that wait for collectives within layers; 1: none. A ring's messages start
// before the attention that precedes their use, and ZeRO-2's reductions are waited for later: a
// rank makes up for its wait for a core meanwhile.
std::int64_t StepModel::ranks_that_wait_in_layers() const {
  const ParallelismConfig& layout = work_.spec.parallelism;
  const MeshShape& mesh = work_.mesh;
  const std::int64_t of_context =
      layout.context_method == ContextMethod::kRing ? layout.context_ulysses : mesh.context;
  const std::int64_t of_data = layout.zero == 3 ? mesh.data_shard * mesh.context : 1;
  return std::max({mesh.tensor, mesh.expert, of_context, of_data});
}

// The share by which ranks that wait for each other prolong the step. Without messages within
// layers they do so once a step, or in the pipeline's bubbles. Where they share cores it costs
// nothing if another rank of the core works meanwhile.
double StepModel::lockstep() const {
  const Network& network = device_.network;
  if (device_.shares_cores()) return network.lockstep_of(ranks_that_wait_in_layers());
  const bool in_layers = result_.parts.messages > 0;
  const bool once_a_step = work_.ranks() > 1 && work_.mesh.pipeline == 1;
  return in_layers || once_a_step ? network.lockstep : 0;
}

StepEstimate StepModel::estimate() {
  play();
  int busiest = 0;
  for (int rank = 1; rank < static_cast<int>(result_.schedule.ranks.size()); ++rank) {
    if (result_.timeline.idle_fraction(rank) < result_.timeline.idle_fraction(busiest)) {
      busiest = rank;
    }
  }
  fill_parts(busiest);
  StepSums& sums = result_.sums;
  sums.busiest = busiest;
  const double reduced = reduce_gradients();
  sums.reducing = reduced - result_.timeline.makespan;
  sums.tied = times_.tied;
  const double computed = reduced + sums.tied;
  result_.parts.waiting = computed * (straggling(device_.network, work_.ranks()) + lockstep());
  update(computed);
  fill_traffic(busiest);
  return std::move(result_);
}

}  // namespace

std::vector<StageLayers> layers_of_stages(const std::vector<std::size_t>& kind_of,
                                          const std::vector<std::int64_t>& layers_per_stage) {
  const std::size_t kinds = *std::max_element(kind_of.begin(), kind_of.end()) + 1;
  std::vector<StageLayers> stages;
  std::int64_t layer = 0;
  for (const std::int64_t count : layers_per_stage) {
    StageLayers layers{.of_kind = std::vector<std::int64_t>(kinds),
                       .is_first = stages.empty(),
                       .is_last = stages.size() + 1 == layers_per_stage.size()};
    const std::int64_t end = layer + count;
    for (; layer < end; ++layer) ++layers.of_kind[kind_of[static_cast<std::size_t>(layer)]];
    stages.push_back(std::move(layers));
  }
  return stages;
}

std::vector<StageCosts> costs_of_stages(const StepTimes& times, const Workload& work,
                                        const DeviceProfile& device,
                                        const std::vector<std::int64_t>& layers_per_stage) {
  std::vector<StageCosts> stages;
  std::map<StageLayers, StageCosts> known;
  for (const StageLayers& layers : layers_of_stages(times.kind_of, layers_per_stage)) {
    auto found = known.find(layers);
    if (found == known.end()) {
      found = known.emplace(layers, stage_costs(times, work, device.network, layers)).first;
    }
    stages.push_back(found->second);
  }
  return stages;
}

ActionCosts action_costs(const std::vector<StageCosts>& stages, const StepTimes& times) {
  ActionCosts costs;
  costs.transfer = times.transfer;
  for (const StageCosts& stage : stages) {
    costs.forward.push_back(stage.forward.seconds());
    costs.backward_input.push_back(stage.input_half);
    costs.backward_weight.push_back(stage.backward.seconds() - stage.input_half);
  }
  return costs;
}

PipelineShape pipeline_shape(const Workload& work) {
  return {.ranks = static_cast<int>(work.mesh.pipeline),
          .micro_batches = static_cast<int>(work.spec.micro_batches),
          .virtual_stages = static_cast<int>(work.spec.parallelism.virtual_stages)};
}

double StepEstimate::tokens_per_second(const Workload& work) const {
  return static_cast<double>(work.tokens()) / seconds;
}

void require_numbers(const DeviceProfile& device, const Workload& work) {
  if (device.rate(work.numbers()).peak > 0) return;
  throw ConfigError(say("training.dtype: ", device.name, " has no matmuls in ",
                        name_of(work.numbers()), "; use another training.dtype or --gpu"));
}

StepEstimate estimate_step(const Workload& work, const StepTimes& times,
                           const DeviceProfile& device, const Simulation& schedule) {
  return StepModel(work, times, device, schedule).estimate();
}

StepEstimate estimate_step(const Workload& work, const StepOps& ops, const DeviceProfile& device,
                           const Simulation& schedule) {
  require_numbers(device, work);
  return estimate_step(work, step_times(ops, work, device), device, schedule);
}

StepEstimate estimate_step(const Workload& work, const StepOps& ops, const DeviceProfile& device) {
  const Simulation schedule(make_schedule(work.spec.parallelism.schedule, pipeline_shape(work)));
  return estimate_step(work, ops, device, schedule);
}

StepEstimate estimate_step(const Workload& work, const DeviceProfile& device) {
  return estimate_step(work, record_step(work.spec, work.mesh, device), device);
}

}  // namespace trireme
