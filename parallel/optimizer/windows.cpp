#include "parallel/optimizer/windows.h"

#include <algorithm>

#include "model/base/philox.h"
#include "model/device/tuning.h"
#include "model/ops/elementwise.h"
#include "parallel/optimizer/strided_of.h"

namespace trireme {
ops::StochasticRounding rounding_of(const UpdateStep& step, const ParamShard& part,
                                    const char* tensor) {
  return {.key = random_key(step.seed, say("round/", tensor, "/", part.param->spec.name)),
          .update = static_cast<std::uint64_t>(step.update),
          .where = strided_of(*part.param, part.first)};
}

namespace {

constexpr const char* kValue = "value";

}  // namespace

void publish_masters(const UpdateStep& step, const OptimizerOptions& options,
                     std::span<const ParamShard> shards) {
  for (const ParamShard& shard : shards) {
    if (shard.master.dtype == shard.value.dtype || shard.count() == 0) continue;
    each_part(step, shard, shard.count(), /*into=*/0, {.master = true}, {},
              [&](const ParamShard& part) {
                if (options.stochastic_rounding && step.update > 0) {
                  ops::round_stochastically(step.stream, part.value, part.master, {},
                                            rounding_of(step, part, kValue));
                } else {
                  ops::cast(step.stream, part.value, part.master);
                }
              });
  }
}

DType Windows::state_dtype(DType accumulator) const {
  require(!options_.has_bfloat16_state() || accumulator == DType::kF32, "bfloat16 state of ",
          name_of(accumulator), " weights");
  return options_.has_bfloat16_state() ? DType::kBf16 : accumulator;
}

void Windows::prepare(std::span<const ParamShard> shards, Arena& workspace) {
  if (!options_.has_bfloat16_state()) return;
  std::int64_t longest = 0;
  for (const ParamShard& shard : shards) longest = std::max(longest, shard.count());
  longest = std::min(longest, tuning_of(workspace.device()).update_elements);
  for (Tensor& wide : wide_) wide = workspace.take({longest}, DType::kF32);
}

bool Windows::rounds(const ParamShard& shard, Writes writes) const {
  return writes != Writes::kState && options_.stochastic_rounding &&
         shard.value.dtype == DType::kBf16;
}

bool Windows::widens(Writes writes) const {
  return writes != Writes::kWeights && options_.has_bfloat16_state();
}

std::int64_t Windows::chunk_length(const ParamShard& shard, Writes writes) const {
  if (rounds(shard, writes) || widens(writes)) return tuning_of(shard.value.device).update_elements;
  return std::max<std::int64_t>(shard.count(), 1);
}

UpdateTensors Windows::open(const UpdateStep& step, const ParamShard& part, std::size_t states,
                            Writes writes) const {
  UpdateTensors tensors{part.value, part.master, part.grad};
  // The kernel updates only the master; close() publishes the value.
  if (rounds(part, writes)) tensors.value = part.master;
  for (std::size_t k = 0; k < states; ++k) {
    tensors.state[k] = part.state[k];
    if (!widens(writes)) continue;
    tensors.state[k] = wide_[k].slice(0, part.count());
    ops::cast(step.stream, tensors.state[k], part.state[k]);
  }
  return tensors;
}

void Windows::close(const UpdateStep& step, const ParamShard& part,
                    std::span<const char* const> states, Writes writes,
                    const UpdateTensors& tensors) const {
  const auto round = [&](const Tensor& to, const Tensor& from, const char* tensor) {
    ops::round_stochastically(step.stream, to, from, step.grad_scale,
                              rounding_of(step, part, tensor));
  };
  if (widens(writes)) {
    for (std::size_t k = 0; k < states.size(); ++k) {
      round(part.state[k], tensors.state[k], states[k]);
    }
  }
  if (rounds(part, writes)) round(part.value, tensors.master, kValue);
}

}  // namespace trireme
