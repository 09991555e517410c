#include "model/ops/norm_ratio.h"

#include "tests/model/ops/op_test.h"

namespace trireme::ops {
namespace {

using namespace trireme::test;  // NOLINT(google-build-using-namespace)

Values squares_of(std::int64_t count, std::uint32_t seed) {
  Values all = random_values(count, seed);
  for (double& value : all) value *= value;
  return all;
}

double norm(const Values& squares) {
  double sum = 0;
  for (const double square : squares) sum += square;
  return std::sqrt(sum);
}

TEST(TrustRatio, is_that_of_the_norms) {
  on_every_platform([](Stream& stream) {
    for (const DType dtype : {DType::kF32, DType::kF64}) {
      for (const std::int64_t count : {1, 31, 32, 100, 5000}) {
        const double roundings = count > 100 ? 200 : 1;  // of a sum in order
        const Values w = squares_of(count, 1), d = squares_of(count + 5, 2);
        const Held weight(stream, {count}, DType::kF64, w);
        const Held direction(stream, {count + 5}, DType::kF64, d);
        const Held scale(stream, {1}, dtype, {-0.5}), ratio(stream, {1}, dtype);
        trust_ratio(stream, ratio, weight, direction, {}, {});
        expect_values(ratio, {norm(w) / norm(d)}, roundings);
        trust_ratio(stream, ratio, weight, direction, scale, {0.001, 0.1});
        expect_values(ratio, {0.001 * norm(w) / (0.5 * norm(d) + 0.1 * norm(w))}, roundings);
      }
    }
  });
}

TEST(TrustRatio, is_one_without_a_weight_or_a_direction) {
  on_every_platform([](Stream& stream) {
    const Held none(stream, {2}, DType::kF64, {0, 0}), some(stream, {2}, DType::kF64, {1, 3});
    const Held ratio(stream, {1}, DType::kF32);
    for (const auto& [weight, direction] :
         {std::pair{&none, &some}, std::pair{&some, &none}, std::pair{&none, &none}}) {
      trust_ratio(stream, ratio, *weight, *direction, {}, {0.001, 0.1});
      EXPECT_EQ(ratio.values(), Values{1});
    }
    trust_ratio(stream, ratio, some, some, {}, {});
    EXPECT_EQ(ratio.values(), Values{1});
    trust_ratio(stream, ratio, some, some, {}, {0.5, 0});
    EXPECT_EQ(ratio.values(), Values{0.5});
  });
}

TEST(InverseNorm, divides_by_the_norm_and_a_little) {
  on_every_platform([](Stream& stream) {
    const Values squares = squares_of(70, 1);
    const Held partials(stream, {70}, DType::kF64, squares), inverse(stream, {1}, DType::kF64);
    inverse_norm(stream, inverse, partials, 0.25);
    expect_values(inverse, {1 / (norm(squares) + 0.25)}, 2);
    const Held none(stream, {1}, DType::kF64, {0});
    inverse_norm(stream, inverse, none, 0.25);
    EXPECT_EQ(inverse.values(), Values{4});
  });
}

}  // namespace
}  // namespace trireme::ops
