#include "trainer/engine/router_stats.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "model/ops/elementwise.h"
#include "model/ops/routing.h"
#include "model/stage/layer_config.h"

namespace trireme {
namespace {

using ops::kRouterSums;
// Of ops::router_losses.
constexpr std::int64_t kBalance = 0, kZLoss = 1, kEntropy = 2;

std::vector<std::int64_t> sparse_layers(const ModelConfig& model) {
  std::vector<std::int64_t> layers;
  for (std::int64_t layer = 0; layer < model.num_hidden_layers; ++layer) {
    if (has_experts(model, layer)) layers.push_back(layer);
  }
  return layers;
}

RouterStats::LayerLoad load_of(std::int64_t layer, std::span<const float> counts) {
  RouterStats::LayerLoad load{.layer = layer, .counts = {counts.begin(), counts.end()}};
  const auto all = std::accumulate(load.counts.begin(), load.counts.end(), std::int64_t{0});
  const std::int64_t most = *std::ranges::max_element(load.counts) * std::ssize(load.counts);
  if (all > 0) load.max_over_mean = static_cast<double>(most) / static_cast<double>(all);
  return load;
}

std::vector<Communicator*> sharers(const RankGroups& groups, bool divides_sequences) {
  if (!divides_sequences) return {groups.pp_forward.get()};
  return {groups.pp_forward.get(), groups.context.get()};
}

}  // namespace

RouterStats::RouterStats(const RankGroups& groups, Stream& stream, const EngineSpec& spec,
                         Arena& workspace)
    : groups_(groups),
      stream_(stream),
      sharers_(sharers(groups, divides_sequences(spec))),
      sparse_layers_(sparse_layers(spec.model)),
      experts_(spec.model.num_experts),
      of_all_(workspace.take(
          {groups.data->size(), spec.micro_batches * spec.model.num_hidden_layers * kRouterSums},
          DType::kF64)),
      of_rank_(of_all_.row_slice(groups.data->rank(), 1)
                   .reshaped({spec.micro_batches, spec.model.num_hidden_layers, kRouterSums})),
      losses_(stream, of_all_),
      rounds_(stream, workspace.take({1}, DType::kF64)),
      counts_(stream, workspace.take({spec.model.num_hidden_layers, experts_}, DType::kF32)) {}

void RouterStats::clear() {
  ops::zero(stream_, of_rank_);
  ops::zero(stream_, counts_.tensor());
}

RouterSink RouterStats::sink(int micro_batch) const {
  const std::int64_t layers = of_rank_.shape[1];
  return {.losses = of_rank_.slice(micro_batch * layers * kRouterSums, layers * kRouterSums)
                        .reshaped({layers, kRouterSums}),
          .counts = counts_.tensor()};
}

// Each pipeline stage has its layers' and zeros, each context rank those of its tokens.
void RouterStats::gather(std::int64_t rounds) {
  if (stream_.executes()) *rounds_.host().as<double>() = static_cast<double>(rounds);
  rounds_.upload(stream_);
  for (Communicator* const ranks :
       {groups_.pp_forward.get(), groups_.context.get(), groups_.data.get()}) {
    ranks->all_reduce(stream_, rounds_.tensor(), Reduce::kMax);
  }
  rounds_.download(stream_);
  for (Communicator* const ranks : sharers_) {
    ranks->all_reduce(stream_, of_rank_, Reduce::kSum);
    ranks->all_reduce(stream_, counts_.tensor(), Reduce::kSum);
  }
  groups_.data->all_gather(stream_, of_all_, of_rank_);
  groups_.data->all_reduce(stream_, counts_.tensor(), Reduce::kSum);
  losses_.download(stream_);
  counts_.download(stream_);
}

double RouterStats::Result::max_over_mean() const {
  double most = 0;
  for (const LayerLoad& load : loads) most = std::max(most, load.max_over_mean);
  return most;
}

RouterStats::Result RouterStats::result(const MicroBatches& order, std::int64_t tokens) const {
  Result result;
  if (!stream_.executes()) return result;
  const std::int64_t layers = of_rank_.shape[1], of_rank = of_rank_.count();
  const auto mean = [&](std::int64_t loss) {
    std::vector<double> in_order(order.ranks * order.of_each);
    for (std::int64_t rank = 0; rank < order.ranks; ++rank) {
      for (std::int64_t own = 0; own < order.of_each; ++own) {
        const double* losses =
            losses_.host().as<double>() + rank * of_rank + own * layers * kRouterSums + loss;
        double& sum = in_order[order.number(rank, own)];
        for (std::int64_t layer = 0; layer < layers; ++layer) sum += losses[layer * kRouterSums];
      }
    }
    return std::accumulate(in_order.begin(), in_order.end(), 0.0) /
           static_cast<double>(in_order.size() * tokens * sparse_layers_.size());
  };
  result.balance_loss = mean(kBalance);
  result.z_loss = mean(kZLoss);
  result.entropy = mean(kEntropy);
  result.rounds = static_cast<std::int64_t>(*rounds_.host().as<double>());
  for (const std::int64_t layer : sparse_layers_) {
    const std::span counts(counts_.host().as<float>() + layer * experts_, experts_);
    result.loads.push_back(load_of(layer, counts));
  }
  return result;
}

}  // namespace trireme
