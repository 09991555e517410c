#include "parallel/data/compression/compressed_sum.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "model/device/cpu/threads.h"
#include "model/ops/elementwise.h"

namespace trireme {
namespace {

// A chunk of numbers is sent as signs and one scale: the scale's bits, then one bit per element,
// set if it is negative.
constexpr std::int64_t kChunk = 512;
constexpr std::int64_t kWords = 1 + kChunk / 32;

// Encodes x + residual, at most kChunk numbers, into `words`; the residual becomes the encoding
// error.
template <class T>
void encode_signs(std::int32_t* words, T* residual, const T* x, std::int64_t count) {
  constexpr std::int64_t kLanes = 16;  // independent sums, so that the compiler vectorizes
  std::array<T, kLanes> sums{};
  for (std::int64_t i = 0; i < count; ++i) {
    residual[i] += x[i];
    sums[static_cast<std::size_t>(i % kLanes)] += std::fabs(residual[i]);
  }
  T total = 0;
  for (const T sum : sums) total += sum;
  const auto scale = static_cast<float>(total / static_cast<T>(count));
  words[0] = std::bit_cast<std::int32_t>(scale);
  for (std::int64_t word = 0; word * 32 < count; ++word) {
    std::uint32_t bits = 0;
    for (std::int64_t i = word * 32; i < std::min(word * 32 + 32, count); ++i) {
      const bool negative = residual[i] < 0;
      bits |= static_cast<std::uint32_t>(negative) << (i % 32);
      residual[i] = finite_or_zero(residual[i] - static_cast<T>(negative ? -scale : scale));
    }
    words[1 + word] = std::bit_cast<std::int32_t>(bits);
  }
}

// Decodes `words` and adds them to sums [count].
template <class T>
void add_signs(T* sums, const std::int32_t* words, std::int64_t count) {
  const auto scale = std::bit_cast<float>(words[0]);
  for (std::int64_t i = 0; i < count; ++i) {
    const bool negative = std::bit_cast<std::uint32_t>(words[1 + i / 32]) >> (i % 32) & 1u;
    sums[i] += static_cast<T>(negative ? -scale : scale);
  }
}

class OneBitSum final : public CompressedSum {
 public:
  OneBitSum(Communicator& group, const GradientRange& range, CompressionMemory memory);
  void reduce(Stream& stream, std::int64_t update) override;
  std::int64_t bytes_sent() const override;

 private:
  template <class Body>
  void for_chunks(Stream& stream, int part, const Body& body) const;

  Communicator& group_;
  Tensor gradients_;
  std::vector<GradientRange::Run> padding_;
  std::int64_t chunks_;             // chunks summed per rank
  Tensor residual_, sum_residual_;  // of this rank's gradients, and of its shard of the sum
  Tensor sent_, received_;          // [ranks, chunks, words per chunk] I32
};

OneBitSum::OneBitSum(Communicator& group, const GradientRange& range, CompressionMemory memory)
    : group_(group), gradients_(range.gradients), padding_(range.padding) {
  const std::int64_t ranks = group.size();
  chunks_ = (gradients_.count() + ranks * kChunk - 1) / (ranks * kChunk);
  residual_ = memory.state.take(gradients_.shape, gradients_.dtype);
  sum_residual_ = memory.state.take({chunks_ * kChunk}, gradients_.dtype);
  sent_ = memory.messages.take({ranks, chunks_, kWords}, DType::kI32);
  received_ = memory.messages.take({ranks, chunks_, kWords}, DType::kI32);
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
    return message.as<std::int32_t>() + (part * chunks_ + chunk) * kWords;
  };
  with_elements(gradients_, [&](auto* gradients) {
    using T = std::remove_pointer_t<decltype(gradients)>;
    T* const residual = residual_.as<T>();
    T* const sum_residual = sum_residual_.as<T>();
    for (int part = 0; part < group_.size(); ++part) {
      for_chunks(stream, part, [&](std::int64_t chunk, std::int64_t first, std::int64_t count) {
        encode_signs(words(sent_, part, chunk), residual + first, gradients + first, count);
      });
    }
    group_.all_to_all(stream, received_, sent_);
    const int mine = group_.rank();
    for_chunks(stream, mine, [&](std::int64_t chunk, std::int64_t, std::int64_t count) {
      std::array<T, kChunk> sums{};
      for (int part = 0; part < group_.size(); ++part) {
        add_signs(sums.data(), words(received_, part, chunk), count);
      }
      encode_signs(words(sent_, mine, chunk), sum_residual + chunk * kChunk, sums.data(), count);
    });
    const std::int64_t block = chunks_ * kWords;
    group_.all_gather(stream, sent_, sent_.slice(mine * block, block));
    for (int part = 0; part < group_.size(); ++part) {
      for_chunks(stream, part, [&](std::int64_t chunk, std::int64_t first, std::int64_t count) {
        std::fill_n(gradients + first, count, T{0});
        add_signs(gradients + first, words(sent_, part, chunk), count);
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

}  // namespace

std::unique_ptr<CompressedSum> make_one_bit_sum(Communicator& group, const GradientRange& range,
                                                CompressionMemory memory) {
  return std::make_unique<OneBitSum>(group, range, memory);
}

}  // namespace trireme
