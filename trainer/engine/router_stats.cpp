#include "trainer/engine/router_stats.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "model/ops/elementwise.h"
#include "model/stage/layer_config.h"

namespace trireme {
namespace {

// Of ops::router_losses.
constexpr std::int64_t kBalance = 0, kZLoss = 1, kLosses = 2;

}  // namespace

RouterStats::RouterStats(const RankGroups& groups, Stream& stream, const ModelConfig& model,
                         std::int64_t micro_batches, Arena& workspace)
    : groups_(groups),
      stream_(stream),
      sparse_layers_(layers_with_experts(model)),
      experts_(model.num_experts),
      of_all_(workspace.take(
          {groups.data->size(), micro_batches * model.num_hidden_layers * kLosses}, DType::kF64)),
      of_rank_(of_all_.row_slice(groups.data->rank(), 1)
                   .reshaped({micro_batches, model.num_hidden_layers, kLosses})),
      losses_(stream, of_all_),
      counts_(stream, workspace.take({model.num_hidden_layers, experts_}, DType::kF32)) {}

void RouterStats::clear() {
  ops::zero(stream_, of_rank_);
  ops::zero(stream_, counts_.tensor());
}

RouterSink RouterStats::sink(int micro_batch) const {
  const std::int64_t layers = of_rank_.shape[1];
  return {.losses = of_rank_.slice(micro_batch * layers * kLosses, layers * kLosses)
                        .reshaped({layers, kLosses}),
          .counts = counts_.tensor()};
}

// Each pipeline stage has its layers' and zeros.
void RouterStats::gather() {
  groups_.pp_forward->all_reduce(stream_, of_rank_, Reduce::kSum);
  groups_.data->all_gather(stream_, of_all_, of_rank_);
  groups_.pp_forward->all_reduce(stream_, counts_.tensor(), Reduce::kSum);
  groups_.data->all_reduce(stream_, counts_.tensor(), Reduce::kSum);
  losses_.download(stream_);
  counts_.download(stream_);
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
            losses_.host().as<double>() + rank * of_rank + own * layers * kLosses + loss;
        double& sum = in_order[order.number(rank, own)];
        for (std::int64_t layer = 0; layer < layers; ++layer) sum += losses[layer * kLosses];
      }
    }
    return std::accumulate(in_order.begin(), in_order.end(), 0.0) /
           static_cast<double>(in_order.size() * tokens * sparse_layers_);
  };
  result.balance_loss = mean(kBalance);
  result.z_loss = mean(kZLoss);
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const std::span counts(counts_.host().as<float>() + layer * experts_, experts_);
    const double all = std::accumulate(counts.begin(), counts.end(), 0.0);
    if (all == 0) continue;
    const double most = *std::ranges::max_element(counts);
    result.max_over_mean =
        std::max(result.max_over_mean, most * static_cast<double>(experts_) / all);
  }
  return result;
}

}  // namespace trireme
