#include "trainer/engine/step_inputs.h"

namespace trireme {
namespace {

HostMirror take_tokens(const Stream& stream, Arena& data, const StepInputs::Size& size) {
  const Shape shape{size.micro_batches, size.sequences * size.seq_len};
  return {stream, data.take(shape, DType::kI32)};
}

}  // namespace

StepInputs::StepInputs(const Stream& stream, Arena& data, const Size& size)
    : size_(size),
      ids_(take_tokens(stream, data, size)),
      targets_(take_tokens(stream, data, size)),
      positions_(take_tokens(stream, data, size)),
      document_start_(take_tokens(stream, data, size)) {}

TokenBatch StepInputs::batch(std::int64_t micro_batches) const {
  const auto count = static_cast<std::size_t>(micro_batches * tokens_per_micro_batch());
  const auto span = [count](const HostMirror& mirror) {
    return std::span(mirror.host().as<std::int32_t>(), count);
  };
  return {size_.sequences * micro_batches,
          size_.seq_len,
          span(ids_),
          span(targets_),
          span(positions_),
          span(document_start_)};
}

void StepInputs::upload(Stream& stream) const {
  for (const HostMirror* input : {&ids_, &targets_, &positions_, &document_start_}) {
    input->upload(stream);
  }
}

Stage::Input StepInputs::micro_batch(int number, Tensor scale) const {
  const auto slice = [&](const HostMirror& input) {
    return input.tensor().slice(number * tokens_per_micro_batch(), tokens_per_micro_batch());
  };
  return {.sequence = {size_.sequences, size_.seq_len, slice(positions_), slice(document_start_),
                       size_.documents},
          .ids = slice(ids_),
          .targets = slice(targets_),
          .x = {},
          .scale = scale};
}

}  // namespace trireme
