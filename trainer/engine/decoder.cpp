#include "trainer/engine/decoder.h"

#include "model/ops/elementwise.h"
#include "trainer/engine/read_values.h"

namespace trireme {

Decoder::Decoder(Stream& stream, const Stage& stage, std::int64_t vocab, std::int64_t capacity,
                 Arena& data, Arena& scratch)
    : stream_(stream),
      stage_(stage),
      vocab_(vocab),
      capacity_(capacity),
      scratch_(scratch),
      caches_(stage.make_caches(data, capacity)),
      id_(stream, data.take({1}, DType::kI32)),
      position_(stream, data.take({1}, DType::kI32)) {}

std::vector<double> Decoder::next_logits(std::int32_t id) {
  require(decoded_ < capacity_, "the cache holds ", capacity_, " tokens");
  if (stream_.executes()) {
    *id_.host().as<std::int32_t>() = id;
    *position_.host().as<std::int32_t>() = static_cast<std::int32_t>(decoded_);
  }
  id_.upload(stream_);
  position_.upload(stream_);
  const Arena::Frame frame(scratch_);
  const Tensor wide = scratch_.take({vocab_}, accumulator_of(stage_.compute()));
  // What the stage keeps is read at once, so that it needs no place of its own.
  Run run{stream_, scratch_, scratch_};
  const Tensor logits =
      stage_.decode(run, id_.tensor(), position_.tensor(), decoded_, caches_).reshaped({vocab_});
  ++decoded_;
  if (logits.dtype == wide.dtype) {
    ops::copy(stream_, wide, logits);
  } else {
    ops::cast(stream_, wide, logits);
  }
  if (!stream_.executes()) return {};
  return read_values(stream_, wide);
}

}  // namespace trireme
