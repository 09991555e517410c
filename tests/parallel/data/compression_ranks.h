#pragma once
#include <functional>
#include <string>
#include <vector>

#include "model/base/philox.h"
#include "parallel/data/compression/gradient_compression.h"
#include "tests/parallel/thread_communicator.h"

namespace trireme::test {

using Method = CompressionOptions::Method;

inline std::string name_of_method(Method method) {
  return std::string(kCompressionNames[static_cast<std::size_t>(method)]);
}

// A 96 x 64 matrix, and 700 elements of vectors before and after it.
inline constexpr std::int64_t kRows = 96, kWidth = 64, kVectors = 700;
inline constexpr std::int64_t kCount = kRows * kWidth + 2 * kVectors;

// Gradients of one rank, of which a compression makes sums.
struct CompressionRank {
  Arena gradients, state{1 << 20}, messages{1 << 20};
  Tensor flat;
  Stream stream;
  GradientCompression compression;

  CompressionRank(const CompressionOptions& options, Communicator& group, DType dtype = DType::kF32)
      : gradients(1 << 17),
        flat(gradients.take({kCount}, dtype)),
        compression(options, group, {{flat, {{kVectors, kRows, kWidth}}}}, {state, messages}) {}

  double at(std::int64_t i) const {
    return flat.dtype == DType::kF64 ? flat.as<double>()[i] : flat.as<float>()[i];
  }
  void set(std::int64_t i, double value) {
    if (flat.dtype == DType::kF64) {
      flat.as<double>()[i] = value;
    } else {
      flat.as<float>()[i] = static_cast<float>(value);
    }
  }
  std::vector<double> values() const {
    std::vector<double> values;
    for (std::int64_t i = 0; i < kCount; ++i) values.push_back(at(i));
    return values;
  }
};

// gradient(rank, update, i) before the sum.
using Gradient = std::function<double(int, std::int64_t, std::int64_t)>;

// What every rank has after each of `updates` sums: [rank][update][element].
inline std::vector<std::vector<std::vector<double>>> compressed_sums(
    const CompressionOptions& options, int ranks, DType dtype, std::int64_t updates,
    const Gradient& gradient) {
  std::vector<std::vector<std::vector<double>>> sums(static_cast<std::size_t>(ranks));
  ThreadGroup group(ranks);
  run_ranks(ranks, {&group}, [&](int rank) {
    ThreadCommunicator communicator(group, rank);
    CompressionRank held(options, communicator, dtype);
    for (std::int64_t update = 1; update <= updates; ++update) {
      for (std::int64_t i = 0; i < kCount; ++i) held.set(i, gradient(rank, update, i));
      held.compression.reduce(held.stream, 0, update);
      sums[static_cast<std::size_t>(rank)].push_back(held.values());
    }
  });
  return sums;
}

// A number in [-1, 1) from three others.
inline double noise(std::int64_t a, std::int64_t b, std::int64_t c) {
  const auto word = philox(static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b),
                           static_cast<std::uint64_t>(c))[0];
  return static_cast<double>(static_cast<std::int32_t>(word)) / 2147483648.0;
}

}  // namespace trireme::test
