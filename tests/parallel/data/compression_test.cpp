#include <gtest/gtest.h>

#include <cmath>

#include "tests/parallel/data/compression_ranks.h"

namespace trireme::test {
namespace {

constexpr Method kAll[] = {Method::kNone, Method::kBfloat16, Method::kFloat16,
                           Method::kTopK, Method::kPowerSgd, Method::kOneBit};
constexpr Method kWithResiduals[] = {Method::kTopK, Method::kPowerSgd, Method::kOneBit};

CompressionOptions with(Method method) {
  return {.method = method, .fraction = 0.05, .rank = 4, .warmup_steps = 0};
}

double noisy(int rank, std::int64_t update, std::int64_t i) {
  return 1e-3 * noise(rank, update, i) * (1 + static_cast<double>(i % 7));
}

TEST(Compression, gives_every_rank_the_same_bits) {
  for (const Method method : kAll) {
    for (const int ranks : {1, 2, 4}) {
      for (const DType dtype : {DType::kF32, DType::kF64}) {
        const auto sums = compressed_sums(with(method), ranks, dtype, 4, noisy);
        for (const auto& other : sums) {
          EXPECT_EQ(other, sums.front()) << name_of_method(method) << " of " << ranks;
        }
      }
    }
  }
}

TEST(Compression, is_exact_where_the_message_can_say_it) {
  // Small integers for the casts, all elements for top-k, one magnitude for one bit, and a
  // matrix of rank 1 for PowerSGD, whose vectors go whole.
  const auto small = [](int rank, std::int64_t, std::int64_t i) {
    return static_cast<double>((i * (rank + 1)) % 17 - 8);
  };
  const auto signs = [](int, std::int64_t, std::int64_t i) { return i % 3 == 0 ? -0.75 : 0.75; };
  const auto flat = [](int rank, std::int64_t, std::int64_t i) {
    const std::int64_t at = i - kVectors;
    if (at < 0 || at >= kRows * kWidth) return static_cast<double>(i % 5 + rank);
    return noise(7, at / kWidth, 0) * (noise(8, at % kWidth, 0) + 1) * (rank + 1);
  };
  struct Case {
    Method method;
    Gradient gradient;
    double tolerance;  // of float64's rounding in PowerSGD's products
  };
  for (const Case& sample :
       {Case{Method::kNone, small, 0}, Case{Method::kBfloat16, small, 0},
        Case{Method::kFloat16, small, 0}, Case{Method::kTopK, small, 0},
        Case{Method::kOneBit, signs, 0}, Case{Method::kPowerSgd, flat, 1e-12}}) {
    for (const int ranks : {2, 4}) {
      CompressionOptions options = with(sample.method);
      options.fraction = 1;
      const auto sums = compressed_sums(options, ranks, DType::kF64, 2, sample.gradient);
      for (std::int64_t i = 0; i < kCount; ++i) {
        double sum = 0;
        for (int rank = 0; rank < ranks; ++rank) sum += sample.gradient(rank, 1, i);
        for (const auto& applied : sums.front()) {
          ASSERT_NEAR(applied[static_cast<std::size_t>(i)], sum, sample.tolerance)
              << name_of_method(sample.method) << " of " << ranks << ", element " << i;
        }
      }
    }
  }
}

// What the rank's residuals hold for each element, read from the memory they were given: one
// bit's are followed by those of the sums that this rank makes.
std::vector<double> left_out(CompressionRank& held, Method method, int rank, int ranks) {
  std::vector<double> left(kCount);
  held.state.reset();
  const auto add = [&](std::int64_t first, std::int64_t count) {
    const double* const residual = held.state.take({count}, DType::kF64).as<double>();
    for (std::int64_t i = 0; i < count && first + i < kCount; ++i) {
      left[static_cast<std::size_t>(first + i)] += residual[i];
    }
  };
  if (method == Method::kPowerSgd) {
    add(kVectors, kRows * kWidth);
  } else {
    add(0, kCount);
  }
  const std::int64_t part = (kCount + ranks * 512 - 1) / (ranks * 512) * 512;
  if (method == Method::kOneBit) add(rank * part, part);
  return left;
}

// The largest residual after so many updates, over the largest gradient; checks that all that
// was not applied is in it.
double largest_left_out(Method method, int ranks, std::int64_t updates) {
  std::vector<std::vector<double>> left(static_cast<std::size_t>(ranks));
  std::vector<double> applied(kCount);
  ThreadGroup group(ranks);
  run_ranks(ranks, {&group}, [&](int rank) {
    ThreadCommunicator communicator(group, rank);
    CompressionRank held(with(method), communicator, DType::kF64);
    for (std::int64_t update = 1; update <= updates; ++update) {
      for (std::int64_t i = 0; i < kCount; ++i) held.set(i, noisy(rank, update, i));
      held.compression.reduce(held.stream, 0, update);
      if (rank > 0) continue;
      for (std::size_t i = 0; i < kCount; ++i) applied[i] += held.at(static_cast<int>(i));
    }
    left[static_cast<std::size_t>(rank)] = left_out(held, method, rank, ranks);
  });
  double largest_gradient = 0, largest = 0;
  for (std::int64_t i = 0; i < kCount; ++i) {
    const auto element = static_cast<std::size_t>(i);
    double gradients = 0, residuals = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      residuals += left[static_cast<std::size_t>(rank)][element];
      for (std::int64_t update = 1; update <= updates; ++update) {
        gradients += noisy(rank, update, i);
        largest_gradient = std::max(largest_gradient, std::fabs(noisy(rank, update, i)));
      }
    }
    EXPECT_NEAR(applied[element] + residuals, gradients, 1e-12)
        << name_of_method(method) << " of " << ranks << ", element " << i;
    largest = std::max(largest, std::fabs(residuals));
  }
  return largest / largest_gradient;
}

TEST(Compression, error_feedback_loses_nothing_and_leaves_a_bounded_residual) {
  for (const Method method : kWithResiduals) {
    for (const int ranks : {2, 4}) {
      const double early = largest_left_out(method, ranks, 60);
      const double late = largest_left_out(method, ranks, 180);
      EXPECT_GT(early, 0.5) << name_of_method(method) << ": nothing was left out";
      EXPECT_LT(late, 1.3 * early) << name_of_method(method) << " of " << ranks;
    }
  }
}

TEST(Compression, ratios_are_as_stated) {
  ThreadGroup group(2);
  ThreadCommunicator communicator(group, 0);
  const auto ratio = [&](Method method, DType dtype) {
    return CompressionRank(with(method), communicator, dtype).compression.traffic().ratio();
  };
  EXPECT_EQ(ratio(Method::kNone, DType::kF32), 1);
  EXPECT_EQ(ratio(Method::kBfloat16, DType::kF32), 2);
  EXPECT_EQ(ratio(Method::kBfloat16, DType::kF64), 4);
  EXPECT_NEAR(ratio(Method::kFloat16, DType::kF32), 2, 0.01);
  // 8 bytes for each of 5 %, gathered from both ranks.
  EXPECT_NEAR(ratio(Method::kTopK, DType::kF32), 4 / (0.05 * 8), 0.05);
  // A bit each and a float for 512; each rank's part is whole chunks, here 8.
  EXPECT_NEAR(ratio(Method::kOneBit, DType::kF32), kCount * 4.0 / (2 * 8 * (512 / 8 + 4)), 1e-3);
  const double factors =
      static_cast<double>(kCount) / static_cast<double>(4 * (kRows + kWidth) + 2 * kVectors);
  EXPECT_NEAR(ratio(Method::kPowerSgd, DType::kF32), factors, 1e-3);
}

TEST(Compression, begins_after_the_warm_up) {
  for (const Method method : kWithResiduals) {
    CompressionOptions options = with(method);
    options.warmup_steps = 2;
    const auto exact = compressed_sums(with(Method::kNone), 2, DType::kF32, 3, noisy).front();
    const auto sums = compressed_sums(options, 2, DType::kF32, 3, noisy).front();
    EXPECT_EQ(sums[0], exact[0]) << name_of_method(method);
    EXPECT_EQ(sums[1], exact[1]) << name_of_method(method);
    EXPECT_NE(sums[2], exact[2]) << name_of_method(method);
  }
}

TEST(Compression, a_gradient_that_is_not_finite_is_seen_by_all_and_not_kept) {
  for (const double bad : {std::nan(""), HUGE_VAL}) {
    const auto spoilt = [&](int rank, std::int64_t update, std::int64_t i) {
      return rank == 1 && update == 2 && i == kVectors + 5 ? bad : noisy(rank, update, i);
    };
    for (const Method method : kAll) {
      const auto sums = compressed_sums(with(method), 2, DType::kF32, 3, spoilt).front();
      const auto all_finite = [](const std::vector<double>& values) {
        return std::all_of(values.begin(), values.end(), [](double x) { return std::isfinite(x); });
      };
      EXPECT_TRUE(all_finite(sums[0])) << name_of_method(method);
      EXPECT_FALSE(all_finite(sums[1])) << name_of_method(method);
      EXPECT_TRUE(all_finite(sums[2])) << name_of_method(method);
    }
  }
}

TEST(Compression, takes_the_memory_that_was_planned) {
  for (const Method method : kAll) {
    ThreadGroup group(2);
    std::size_t state = 0, messages = 0;
    run_ranks(2, {&group}, [&](int rank) {
      ThreadCommunicator communicator(group, rank);
      CompressionRank held(with(method), communicator);
      if (rank == 0) {
        state = held.state.peak();
        messages = held.messages.peak();
      }
      held.compression.reduce(held.stream, 0, 1);
    });
    ThreadCommunicator communicator(group, 0);
    Arena planned_state = Arena::unbounded(), planned_messages = Arena::unbounded();
    Arena gradients = Arena::unbounded();
    Tally tally;
    Stream planning(Device{}, tally);
    GradientCompression compression(with(method), communicator,
                                    {{gradients.take({kCount}), {{kVectors, kRows, kWidth}}}},
                                    {planned_state, planned_messages});
    compression.reduce(planning, 0, 1);
    EXPECT_EQ(planned_state.peak(), state) << name_of_method(method);
    EXPECT_EQ(planned_messages.peak(), messages) << name_of_method(method);
    EXPECT_EQ(messages > 0, method != Method::kNone);
    EXPECT_EQ(tally.matmul, 0) << "counted as the model's";
  }
}

TEST(Compression, ranges_do_not_know_of_each_other) {
  for (const Method method : kAll) {
    ThreadGroup group(2);
    run_ranks(2, {&group}, [&](int rank) {
      ThreadCommunicator communicator(group, rank);
      Arena gradients(1 << 17), state(1 << 20), messages(1 << 20);
      const Tensor a = gradients.take({kCount}), b = gradients.take({kCount});
      GradientCompression compression(
          with(method), communicator,
          {{a, {{kVectors, kRows, kWidth}}}, {b, {{kVectors, kRows, kWidth}}}}, {state, messages});
      CompressionRank alone(with(method), communicator);
      for (std::int64_t update = 1; update <= 3; ++update) {
        for (std::int64_t i = 0; i < kCount; ++i) {
          a.as<float>()[i] = static_cast<float>(noisy(rank + 10, update, i));
          b.as<float>()[i] = static_cast<float>(noisy(rank, update, i));
          alone.set(i, noisy(rank, update, i));
        }
        Stream stream;
        compression.reduce(stream, 1, update);
        compression.reduce(stream, 0, update);
        alone.compression.reduce(stream, 0, update);
        EXPECT_EQ(std::memcmp(b.data, alone.flat.data, b.bytes()), 0) << name_of_method(method);
      }
    });
  }
}

TEST(Compression, most_methods_are_the_cpus) {
  ThreadGroup group(2);
  ThreadCommunicator communicator(group, 0);
  const Device gpu{Device::Kind::kCuda, 0};
  for (const Method method : kAll) {
    Arena gradients = Arena::unbounded(gpu), state = Arena::unbounded(gpu);
    const auto make = [&] {
      GradientCompression(with(method), communicator, {{gradients.take({64}), {}}}, {state, state});
    };
    if (method == Method::kNone || method == Method::kBfloat16) {
      EXPECT_NO_THROW(make());
    } else {
      EXPECT_THROW(make(), ConfigError) << name_of_method(method);
    }
  }
}

}  // namespace
}  // namespace trireme::test
