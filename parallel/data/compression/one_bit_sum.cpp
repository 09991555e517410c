#include "parallel/data/compression/one_bit_sum.h"

#include <algorithm>
#include <array>

#include "model/device/cpu/threads.h"
#include "model/ops/elementwise.h"
#include "parallel/data/compression/sign_bits.h"
#include "parallel/data/compression/traffic.h"

namespace trireme {
namespace {

constexpr std::int64_t kChunk = OneBitSum::kChunk;
using Bits = SignBits<kChunk>;

}  // namespace

OneBitSum::OneBitSum(Communicator& group, const GradientRange& range, CompressionMemory memory)
    : group_(group), gradients_(range.gradients), padding_(range.padding) {
  const std::int64_t ranks = group.size();
  chunks_ = (gradients_.count() + ranks * kChunk - 1) / (ranks * kChunk);
  residual_ = memory.state.take(gradients_.shape, gradients_.dtype);
  sum_residual_ = memory.state.take({chunks_ * kChunk}, gradients_.dtype);
  sent_ = memory.messages.take({ranks, chunks_, Bits::kWords}, DType::kI32);
  received_ = memory.messages.take({ranks, chunks_, Bits::kWords}, DType::kI32);
}

// Calls body(chunk, first, count) for the chunks of one rank's shard; `first` is an offset in the
// range.
template <class Body>
void OneBitSum::for_chunks(Stream& stream, int part, const Body& body) const {
  if (!stream.executes()) return;
  cpu::parallel_for(chunks_, 8, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t chunk = from; chunk < to; ++chunk) {
      const std::int64_t first = (part * chunks_ + chunk) * kChunk;
      const std::int64_t count = std::min(kChunk, gradients_.count() - first);
      if (count > 0) body(chunk, first, count);
    }
  });
}

void OneBitSum::reduce(Stream& stream, std::int64_t) {
  const auto words = [&](const Tensor& message, std::int64_t part, std::int64_t chunk) {
    return message.as<std::int32_t>() + (part * chunks_ + chunk) * Bits::kWords;
  };
  with_elements(gradients_, [&](auto* gradients) {
    using T = std::remove_pointer_t<decltype(gradients)>;
    T* const residual = residual_.as<T>();
    T* const sum_residual = sum_residual_.as<T>();
    for (int part = 0; part < group_.size(); ++part) {
      for_chunks(stream, part, [&](std::int64_t chunk, std::int64_t first, std::int64_t count) {
        Bits::encode(words(sent_, part, chunk), residual + first, gradients + first, count);
      });
    }
    group_.all_to_all(stream, received_, sent_);
    const int mine = group_.rank();
    for_chunks(stream, mine, [&](std::int64_t chunk, std::int64_t, std::int64_t count) {
      std::array<T, kChunk> sums{};
      for (int part = 0; part < group_.size(); ++part) {
        Bits::add(sums.data(), words(received_, part, chunk), count);
      }
      Bits::encode(words(sent_, mine, chunk), sum_residual + chunk * kChunk, sums.data(), count);
    });
    const std::int64_t block = chunks_ * Bits::kWords;
    group_.all_gather(stream, sent_, sent_.slice(mine * block, block));
    for (int part = 0; part < group_.size(); ++part) {
      for_chunks(stream, part, [&](std::int64_t chunk, std::int64_t first, std::int64_t count) {
        std::fill_n(gradients + first, count, T{0});
        Bits::add(gradients + first, words(sent_, part, chunk), count);
      });
    }
  });
  // A sign bit cannot encode zero.
  for (const GradientRange::Run& run : padding_) {
    ops::zero(stream, gradients_.slice(run.first, run.count));
  }
}

std::int64_t OneBitSum::bytes_sent() const {
  return all_to_all_bytes(group_, sent_.bytes()) +
         all_gather_bytes(group_, sent_.bytes() / group_.size());
}

}  // namespace trireme
