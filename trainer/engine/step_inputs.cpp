#include "trainer/engine/step_inputs.h"

namespace trireme {

StepInputs::StepInputs(const Stream& stream, Arena& data, const Size& size)
    : size_(size),
      arrays_(stream, data.take({data::TokenBatch::kArrays, size.micro_batches,
                                 size.sequences * size.seq_len},
                                DType::kI32)) {}

data::TokenBatch StepInputs::batch(std::int64_t micro_batches) const {
  const std::span memory(arrays_.host().as<std::int32_t>(), arrays_.host().count());
  const std::int64_t sequences = size_.micro_batches * size_.sequences;
  return data::TokenBatch::in(memory, sequences, size_.seq_len)
      .part(0, micro_batches * size_.sequences);
}

void StepInputs::upload(Stream& stream) const {
  arrays_.upload(stream);
}

MicroBatch StepInputs::micro_batch(int number, Tensor scale) const {
  const auto array = [&](std::int64_t of) {
    const std::int64_t at = of * size_.micro_batches + number;
    return arrays_.tensor().slice(at * tokens_per_micro_batch(), tokens_per_micro_batch());
  };
  return {.sequences = size_.sequences,
          .seq_len = size_.seq_len,
          .ids = array(0),
          .targets = array(1),
          .positions = array(2),
          .document_start = array(3),
          .documents = size_.documents,
          .scale = scale};
}

}  // namespace trireme
