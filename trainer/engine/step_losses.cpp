#include "trainer/engine/step_losses.h"

#include <algorithm>
#include <numeric>

#include "model/base/error.h"
#include "model/device/copy.h"
#include "model/ops/elementwise.h"

namespace trireme {
namespace {

template <class T>
std::vector<T> copied(Stream& stream, const Tensor& tensor) {
  std::vector<T> values(tensor.count());
  copy_bytes(stream, reinterpret_cast<std::byte*>(values.data()), tensor.data, tensor.bytes());
  stream.synchronize();
  return values;
}

}  // namespace

StepLosses::StepLosses(const RankGroups& groups, Stream& stream, const Size& size, Arena& data,
                       Arena& workspace)
    : groups_(groups),
      stream_(stream),
      replicas_(size.replicas),
      of_all_(workspace.take({groups.data->size(), size.micro_batches}, DType::kF64)),
      of_rank_(of_all_.row_slice(groups.data->rank(), 1).reshaped({size.micro_batches})),
      host_(stream, of_all_),
      scale_(stream, data.take({2}, DType::kF64)) {}

void StepLosses::set_tokens(std::int64_t valid, std::int64_t all) {
  if (!stream_.executes()) return;
  per_token_ = 1.0 / static_cast<double>(std::max<std::int64_t>(valid, 1));
  double* const scales = scale_.host().as<double>();
  // The gradients of replicas are summed.
  scales[0] = loss_scale_ * per_token_ / replicas_;
  scales[1] = loss_scale_ / static_cast<double>(all) / replicas_;
}

void StepLosses::clear() {
  ops::zero(stream_, of_rank_);
}

void StepLosses::add(int micro_batch, Tensor token_losses) {
  ops::sum(stream_, of_rank_.slice(micro_batch, 1), token_losses);
}

// Only the last pipeline stage has losses; the others add zeros.
void StepLosses::gather() {
  groups_.pp_forward->all_reduce(stream_, of_rank_, Reduce::kSum);
  if (replicas_ == 1) groups_.context->all_reduce(stream_, of_rank_, Reduce::kSum);
  groups_.data->all_gather(stream_, of_all_, of_rank_);
  host_.download(stream_);
}

double StepLosses::sum(const MicroBatches& order) const {
  if (!stream_.executes()) return 0;
  const std::int64_t per_rank = of_all_.shape[1];
  std::vector<double> in_order(order.ranks * order.of_each);
  for (std::int64_t rank = 0; rank < order.ranks; ++rank) {
    for (std::int64_t own = 0; own < order.of_each; ++own) {
      in_order[order.number(rank, own)] = host_.host().as<double>()[rank * per_rank + own];
    }
  }
  return std::accumulate(in_order.begin(), in_order.end(), 0.0);
}

std::vector<double> read_losses(Stream& stream, const Tensor& token_losses) {
  if (token_losses.dtype == DType::kF64) return copied<double>(stream, token_losses);
  require(token_losses.dtype == DType::kF32, "losses are float32 or float64");
  const std::vector<float> values = copied<float>(stream, token_losses);
  return {values.begin(), values.end()};
}

}  // namespace trireme
