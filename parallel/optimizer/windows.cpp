#include "parallel/optimizer/windows.h"

#include <algorithm>

#include "model/base/philox.h"
#include "model/ops/elementwise.h"
#include "parallel/optimizer/strided_of.h"

namespace trireme {
namespace {

// On the CPU a chunk fits a core's cache; a GPU needs chunks large enough to fill it.
std::int64_t piece_of(Device device) {
  return device.is_cuda() ? std::int64_t{1} << 22 : std::int64_t{1} << 16;
}

ops::StochasticRounding rounding(const OptimizerOptions& options, const UpdateStep& step,
                                 const UpdateRange& part, const char* tensor) {
  return {.key = random_key(options.seed, say("round/", tensor, "/", part.param->spec.name)),
          .update = static_cast<std::uint64_t>(step.update),
          .where = strided_of(*part.param, part.first)};
}

constexpr const char* kValue = "value";

}  // namespace

void publish_masters(Stream& stream, const OptimizerOptions& options,
                     std::span<const UpdateRange> ranges, std::int64_t update) {
  const UpdateStep step{stream, {}, 0, update};
  for (const UpdateRange& range : ranges) {
    const std::int64_t count = range.value.count();
    if (range.master.dtype == range.value.dtype || count == 0) continue;
    each_part(stream, range, count, /*into=*/0, {.master = true}, {}, [&](const UpdateRange& part) {
      if (options.stochastic_rounding && update > 0) {
        ops::round_stochastically(stream, part.value, part.master, {},
                                  rounding(options, step, part, kValue));
      } else {
        ops::cast(stream, part.value, part.master);
      }
    });
  }
}

DType Windows::state_dtype(DType accumulator) const {
  require(!options_.bfloat16_state || accumulator == DType::kF32, "bfloat16 state of ",
          name_of(accumulator), " weights");
  return options_.bfloat16_state ? DType::kBf16 : accumulator;
}

void Windows::prepare(std::span<const UpdateRange> ranges, Arena& workspace) {
  if (!options_.bfloat16_state) return;
  std::int64_t longest = 0;
  for (const UpdateRange& range : ranges) longest = std::max(longest, range.value.count());
  longest = std::min(longest, piece_of(workspace.device()));
  for (Tensor& wide : wide_) wide = workspace.take({longest}, DType::kF32);
}

bool Windows::rounds(const UpdateRange& range, Writes writes) const {
  return writes != Writes::kState && options_.stochastic_rounding &&
         range.value.dtype == DType::kBf16;
}

bool Windows::widens(Writes writes) const {
  return writes != Writes::kWeights && options_.bfloat16_state;
}

std::int64_t Windows::piece_length(const UpdateRange& range, Writes writes) const {
  if (rounds(range, writes) || widens(writes)) return piece_of(range.value.device);
  return std::max<std::int64_t>(range.value.count(), 1);
}

Windows::Piece Windows::open(const UpdateStep& step, const UpdateRange& part, std::size_t states,
                             Writes writes) const {
  const bool apart = part.master.dtype != part.value.dtype;
  Piece piece{.value = part.value,
              .master = apart ? part.master : Tensor{},
              .grad = part.grad,
              .state = {}};
  if (rounds(part, writes)) {
    // The kernel updates only the master; close() publishes the value.
    piece.value = piece.master;
    piece.master = {};
  }
  require(part.state.size() == (writes == Writes::kWeights ? part.state.size() : states),
          "a range of ", part.param->spec.name, " with ", part.state.size(), " states, not ",
          states);
  for (std::size_t k = 0; k < states; ++k) {
    piece.state[k] = part.state[k];
    if (!widens(writes)) continue;
    const Tensor wide = wide_[k].slice(0, part.value.count());
    ops::cast(step.stream, wide, piece.state[k]);
    piece.state[k] = wide;
  }
  return piece;
}

void Windows::close(const UpdateStep& step, const UpdateRange& part,
                    std::span<const char* const> states, Writes writes, const Piece& piece) const {
  const auto round = [&](const Tensor& to, const Tensor& from, const char* tensor) {
    ops::round_stochastically(step.stream, to, from, step.grad_scale,
                              rounding(options_, step, part, tensor));
  };
  if (widens(writes)) {
    for (std::size_t k = 0; k < states.size(); ++k) round(part.state[k], piece.state[k], states[k]);
  }
  if (rounds(part, writes)) round(part.value, piece.value, kValue);
}

}  // namespace trireme
