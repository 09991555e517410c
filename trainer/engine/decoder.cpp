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
      caches_(stage.make_caches(data, size.capacity, size.at_once)),
      ids_(stream, data.take({size.at_once}, DType::kI32)),
      positions_(stream, data.take({size.at_once}, DType::kI32)) {}

Tensor Decoder::decode(std::span<const std::int32_t> ids) {
  const auto count = static_cast<std::int64_t>(ids.size());
  if (stream_.executes()) {
    stream_.synchronize();  // the previous call reads the host's ids
    std::copy(ids.begin(), ids.end(), ids_.host().as<std::int32_t>());
    auto* const positions = positions_.host().as<std::int32_t>();
    std::iota(positions, positions + count, static_cast<std::int32_t>(decoded_));
  }
  ids_.upload(stream_);
  positions_.upload(stream_);
  // The logits are read at once, so that they need not be kept.
  ExecContext ctx{stream_, scratch_, scratch_};
  const Tensor logits = stage_
                            .decode(ctx, ids_.tensor().slice(0, count),
                                    positions_.tensor().slice(0, count), decoded_, caches_)
                            .reshaped({size_.vocab});
  decoded_ += count;
  return logits;
}

std::vector<float> Decoder::next_logits(std::span<const std::int32_t> ids) {
  const auto count = static_cast<std::int64_t>(ids.size());
  require(count > 0 && decoded_ + count <= size_.capacity, "decodes ", count, " tokens after ",
          decoded_, "; the key-value cache holds ", size_.capacity);
  const auto most = static_cast<std::size_t>(size_.at_once);
  for (; ids.size() > most; ids = ids.subspan(most)) {
    const Arena::Frame frame(scratch_);
    decode(ids.first(most));
  }
  const Arena::Frame frame(scratch_);
  const Tensor wide = scratch_.take({size_.vocab}, DType::kF32);
  const Tensor logits = decode(ids);
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
