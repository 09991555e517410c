#pragma once
#include <cstdint>
#include <vector>

#include "model/stage/stage.h"
#include "model/tensor/host_mirror.h"

namespace trireme {

// Continues one sequence token by token with the weights of a stage that is the whole model.
class Decoder {
 public:
  // For sequences of at most `capacity` tokens. All given outlive the decoder, which takes the
  // key-value cache from `data`, and temporaries of one token from `scratch`.
  Decoder(Stream& stream, const Stage& stage, std::int64_t vocab, std::int64_t capacity,
          Arena& data, Arena& scratch);

  std::int64_t capacity() const { return capacity_; }
  // The next token begins a sequence.
  void restart() { decoded_ = 0; }
  // The logits [vocab] that follow the sequence's next token; nothing on a planning stream.
  std::vector<double> next_logits(std::int32_t id);

 private:
  Stream& stream_;
  const Stage& stage_;
  std::int64_t vocab_, capacity_;
  Arena& scratch_;
  std::vector<KeyValueCache> caches_;
  HostMirror id_, position_;  // [1] I32
  std::int64_t decoded_ = 0;
};

}  // namespace trireme
