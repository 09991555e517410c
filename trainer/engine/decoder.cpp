#include "trainer/engine/decoder.h"

#include <algorithm>
#include <numeric>

#include "model/device/copy.h"
#include "model/ops/elementwise.h"

namespace trireme {

Decoder::Decoder(Stream& stream, const Stage& stage, const Size& size, Arena& data, Arena& scratch)
    : stream_(stream),
      stage_(stage),
      size_(size),
      scratch_(scratch),
      caches_(stage.make_caches(data, size.capacity)),
      ids_(stream, data.take({size.at_once}, DType::kI32)),
      positions_(stream, data.take({size.at_once}, DType::kI32)) {}

std::vector<float> Decoder::next_logits(std::span<const std::int32_t> ids) {
  const auto count = static_cast<std::int64_t>(ids.size());
  require(count > 0 && count <= size_.at_once, "decodes 1 to ", size_.at_once,
          " tokens per call, not ", count);
  require(decoded_ + count <= size_.capacity, "the key-value cache holds ", size_.capacity,
          " tokens");
  if (stream_.executes()) {
    std::copy(ids.begin(), ids.end(), ids_.host().as<std::int32_t>());
    auto* const positions = positions_.host().as<std::int32_t>();
    std::iota(positions, positions + count, static_cast<std::int32_t>(decoded_));
  }
  ids_.upload(stream_);
  positions_.upload(stream_);
  const Arena::Frame frame(scratch_);
  const Tensor wide = scratch_.take({size_.vocab}, DType::kF32);
  // The logits are read at once, so that they need not be kept.
  ExecContext ctx{stream_, scratch_, scratch_};
  const Tensor logits = stage_
                            .decode(ctx, ids_.tensor().slice(0, count),
                                    positions_.tensor().slice(0, count), decoded_, caches_)
                            .reshaped({size_.vocab});
  decoded_ += count;
  if (logits.dtype == wide.dtype) {
    ops::copy(stream_, wide, logits);
  } else {
    ops::cast(stream_, wide, logits);
  }
  if (!stream_.executes()) return {};
  std::vector<float> values(size_.vocab);
  copy_bytes(stream_, reinterpret_cast<std::byte*>(values.data()), wide.data, wide.bytes());
  stream_.synchronize();
  return values;
}

}  // namespace trireme
