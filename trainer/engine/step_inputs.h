#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "data/token_batch.h"
#include "model/layers/micro_batch.h"
#include "model/tensor/host_mirror.h"
#include "trainer/engine/sequence_shards.h"

namespace trireme {

// The tokens of a rank's micro-batches on the device, which the host fills in.
class StepInputs {
 public:
  struct Size {
    std::int64_t micro_batches = 1;
    std::int64_t sequences = 1;  // per micro-batch
    std::int64_t seq_len = 1;    // of this rank's tokens
    bool documents = true;       // false: no batch has a document mask
    std::int64_t slots = 0;      // for micro-batches at fixed addresses
    bool dropout = false;        // TokenBatch has dropout_words
    // With context parallelism, for which there are no slots.
    std::optional<SequenceShards::Size> shards = {};

    std::int64_t arrays() const { return data::TokenBatch::kArrays + (dropout ? 1 : 0); }
  };
  StepInputs(const Stream& stream, Arena& data, const Size& size);

  // The host's view of the first `micro_batches`, one after the other, of whole sequences.
  data::TokenBatch batch(std::int64_t micro_batches) const;
  // Queued: the device sees what the host has written of the first `micro_batches`.
  void upload(Stream& stream, std::int64_t micro_batches) const;
  // `scale`: MicroBatch's.
  MicroBatch micro_batch(int number, Tensor scale = {}) const;

  // The same at an address that depends on the slot alone; queues its copy there.
  MicroBatch micro_batch_in_slot(Stream& stream, int number, int slot, Tensor scale) const;

  bool has_slots() const { return size_.slots > 0; }
  // Of this rank, and of whole sequences.
  std::int64_t tokens_per_micro_batch() const { return size_.sequences * size_.seq_len; }
  std::int64_t whole_tokens_per_micro_batch() const;
  // With context parallelism; else null.
  const SequenceShards* shards() const { return shards_.get(); }

 private:
  data::TokenBatch own_batch() const;
  MicroBatch view(const std::function<Tensor(std::int64_t array)>& array, Tensor scale) const;

  const Size size_;
  const HostMirror arrays_;  // TokenBatch::in: [arrays, micro_batches, tokens] I32
  const std::unique_ptr<SequenceShards> shards_;
  const Tensor in_slots_;  // [slots, arrays, tokens] I32; empty without slots
};

}  // namespace trireme
