#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "model/stage/stage.h"
#include "model/tensor/host_mirror.h"

namespace trireme {

// Generates one sequence with a key-value cache, by a stage that is the whole model.
class Decoder {
 public:
  struct Size {
    std::int64_t vocab = 0;
    std::int64_t capacity = 0;  // tokens of the longest sequence
    std::int64_t at_once = 1;   // tokens decoded in one call of the model, at most
  };
  // Takes the key-value cache from `data` for good, and temporaries of a call from `scratch`.
  // Everything given outlives the decoder.
  Decoder(Stream& stream, const Stage& stage, const Size& size, Arena& data, Arena& scratch);

  // The next token begins a new sequence.
  void restart() { decoded_ = 0; }
  // Appends tokens to the sequence, size.at_once of them a call of the model, and returns the
  // logits [vocab] that follow the last; empty on a planning stream.
  std::vector<float> next_logits(std::span<const std::int32_t> ids);
  std::vector<float> next_logits(std::int32_t id) { return next_logits({&id, 1}); }

 private:
  Tensor decode(std::span<const std::int32_t> ids);
  Stream& stream_;
  const Stage& stage_;
  const Size size_;
  Arena& scratch_;
  const std::vector<KeyValueCache> caches_;
  const HostMirror ids_, positions_;  // [at_once] I32
  std::int64_t decoded_ = 0;
};

}  // namespace trireme
