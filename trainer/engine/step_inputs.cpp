#include "trainer/engine/step_inputs.h"

#include "model/ops/elementwise.h"

namespace trireme {

StepInputs::StepInputs(const Stream& stream, Arena& data, const Size& size)
    : size_(size),
      arrays_(stream, data.take({size.arrays(), size.micro_batches, size.sequences * size.seq_len},
                                DType::kI32)),
      shards_(size.shards ? std::make_unique<SequenceShards>(stream, data, *size.shards) : nullptr),
      in_slots_(size.slots == 0
                    ? Tensor{}
                    : data.take({size.slots, size.arrays(), size.sequences * size.seq_len},
                                DType::kI32)) {
  require(size.slots == 0 || !shards_, "sharded sequences have no slots");
}

data::TokenBatch StepInputs::own_batch() const {
  const std::span memory(arrays_.host().as<std::int32_t>(), arrays_.host().count());
  return data::TokenBatch::in(memory, size_.micro_batches * size_.sequences, size_.seq_len);
}

data::TokenBatch StepInputs::batch(std::int64_t micro_batches) const {
  const bool is_divided = shards_ && shards_->divided();
  const data::TokenBatch all = is_divided ? shards_->whole() : own_batch();
  return all.part(0, micro_batches * size_.sequences);
}

std::int64_t StepInputs::whole_tokens_per_micro_batch() const {
  return shards_ ? shards_->whole_tokens() : tokens_per_micro_batch();
}

void StepInputs::upload(Stream& stream, std::int64_t micro_batches) const {
  if (shards_) {
    if (stream.executes()) shards_->shard_batch(own_batch(), micro_batches);
    shards_->upload(stream);
  }
  arrays_.upload(stream);
}

MicroBatch StepInputs::micro_batch(int number, Tensor scale) const {
  const std::int64_t tokens = tokens_per_micro_batch();
  MicroBatch batch = view(
      [&](std::int64_t array) {
        return arrays_.tensor().slice((array * size_.micro_batches + number) * tokens, tokens);
      },
      scale);
  if (shards_) batch.shard = shards_->shard(number);
  return batch;
}

MicroBatch StepInputs::micro_batch_in_slot(Stream& stream, int number, int slot,
                                           Tensor scale) const {
  const std::int64_t tokens = tokens_per_micro_batch();
  const auto there = [&](std::int64_t array) {
    return in_slots_.slice((slot * size_.arrays() + array) * tokens, tokens);
  };
  for (std::int64_t array = 0; array < size_.arrays(); ++array) {
    const std::int64_t at = array * size_.micro_batches + number;
    ops::copy(stream, there(array), arrays_.tensor().slice(at * tokens, tokens));
  }
  return view(there, scale);
}

MicroBatch StepInputs::view(const std::function<Tensor(std::int64_t array)>& array,
                            Tensor scale) const {
  return {.sequences = size_.sequences,
          .seq_len = size_.seq_len,
          .ids = array(0),
          .targets = array(1),
          .positions = array(2),
          .document_start = array(3),
          .documents = size_.documents,
          .dropout_words = size_.dropout ? array(data::TokenBatch::kArrays) : Tensor{},
          .scale = scale};
}

}  // namespace trireme
