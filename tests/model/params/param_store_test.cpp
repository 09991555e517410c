#include "model/params/param_store.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "model/params/init.h"

namespace trireme {
namespace {

std::vector<float> drawn(const std::string& name, std::uint64_t seed, std::uint64_t first,
                         std::size_t count) {
  std::vector<float> values(count);
  ElementInit(Init::kNormal, 1, seed, name).fill(first, values);
  return values;
}

TEST(ElementInit, elements_do_not_depend_on_where_a_run_begins) {
  const std::vector<float> whole = drawn("w", 1, 0, 64);
  for (std::uint64_t first = 0; first < 9; ++first) {
    for (std::size_t count = 1; count < 9; ++count) {
      const std::vector<float> part = drawn("w", 1, first, count);
      EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + static_cast<long>(first)));
    }
  }
}

TEST(ElementInit, draws_differ_by_name_and_seed) {
  EXPECT_NE(drawn("a", 1, 0, 8), drawn("b", 1, 0, 8));
  EXPECT_NE(drawn("a", 1, 0, 8), drawn("a", 2, 0, 8));
}

TEST(ElementInit, draws_are_normal) {
  constexpr std::size_t kCount = 1 << 20;
  const std::vector<float> values = drawn("normal", 5, 0, kCount);
  double sum = 0;
  double squares = 0;
  double fourth = 0;
  std::size_t within_one = 0;
  for (const double x : values) {
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
    within_one += std::abs(x) < 1;
  }
  const double n = kCount;
  // Five standard errors of each statistic.
  EXPECT_NEAR(sum / n, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(squares / n, 1, 5 * std::sqrt(2 / n));
  EXPECT_NEAR(fourth / n, 3, 5 * std::sqrt(96 / n));
  EXPECT_NEAR(static_cast<double>(within_one) / n, 0.6826894921, 5 * 0.4655 / std::sqrt(n));
}

struct Stored {
  ParamStore store;
  Arena weights{1 << 20}, masters{1 << 20}, gradients{1 << 20};
};

void declare(ParamStore& store, Slice slice) {
  store.declare(std::vector<ParamSpec>{
      {.name = "q", .shape = {8, 6}, .cut = {0, slice}, .init_scale = 0.5, .decay = true},
      {.name = "k", .shape = {4, 6}, .cut = {0, slice}, .init_scale = 0.5, .decay = true}});
  store.declare(
      {.name = "o", .shape = {6, 8}, .cut = {1, slice}, .init_scale = 0.5, .decay = true});
  store.declare({.name = "gain", .shape = {6}, .init = Init::kOnes});
}

TEST(ParamStore, a_cut_holds_the_same_elements_as_the_whole) {
  Stored whole;
  declare(whole.store, {});
  whole.store.allocate({whole.weights, whole.masters, &whole.gradients}, DType::kF32);
  whole.store.initialize(9);
  for (int index = 0; index < 2; ++index) {
    Stored part;
    declare(part.store, {index, 2});
    part.store.allocate({part.weights, part.masters, &part.gradients}, DType::kF32);
    part.store.initialize(9);
    for (std::size_t w = 0; w < whole.store.weights().size(); ++w) {
      for (std::size_t p = 0; p < whole.store.weights()[w].parts.size(); ++p) {
        const Param& mine = part.store.weights()[w].parts[p];
        const Param& all = whole.store.weights()[w].parts[p];
        for (std::int64_t i = 0; i < mine.value.count(); ++i) {
          const std::int64_t width = mine.value.width();
          const int last = mine.box.from.rank() - 1;
          const std::int64_t row = last == 0 ? 0 : mine.box.from[0] + i / width;
          const std::int64_t column = mine.box.from[last] + i % width;
          EXPECT_EQ(mine.value.as<float>()[i],
                    all.value.as<float>()[row * all.value.width() + column])
              << mine.spec.name << " " << i;
        }
      }
    }
  }
}

TEST(ParamStore, parts_of_a_weight_stand_back_to_back) {
  Stored held;
  declare(held.store, {});
  held.store.allocate({held.weights, held.masters, &held.gradients}, DType::kF32);
  const Weight& joined = held.store.weights().front();
  EXPECT_EQ(joined.value.shape, (Shape{12, 6}));
  EXPECT_EQ(joined.parts[1].value.data, joined.value.row_slice(8, 4).data);
  EXPECT_EQ(joined.parts[1].grad.data, joined.grad.row_slice(8, 4).data);
}

TEST(ParamStore, bfloat16_weights_are_their_rounded_masters) {
  Stored held;
  declare(held.store, {});
  held.store.allocate({held.weights, held.masters, &held.gradients}, DType::kBf16);
  held.store.initialize(9);
  const Tensor values = held.store.values();
  const Tensor masters = held.store.masters();
  ASSERT_EQ(values.count(), masters.count());
  for (std::int64_t i = 0; i < values.count(); ++i) {
    EXPECT_EQ(values.as<Bf16>()[i].bits, Bf16(masters.as<float>()[i]).bits);
  }
}

TEST(ParamStore, a_parameter_without_a_gradient_is_named) {
  Stored held;
  declare(held.store, {});
  held.store.allocate({held.weights, held.masters, &held.gradients}, DType::kF32);
  held.store.expect_gradients();
  for (Weight& weight : held.store.weights()) {
    if (weight.parts.front().spec.name == "o") continue;
    EXPECT_TRUE(weight.first_gradient());
  }
  EXPECT_FALSE(held.store.weights().front().first_gradient());
  try {
    held.store.require_gradients();
    FAIL() << "not noticed";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("parameter o"), std::string::npos);
  }
}

TEST(Cut, one_that_does_not_divide_is_refused) {
  EXPECT_THROW(placement({7, 3}, {0, {0, 2}}), ConfigError);
}

}  // namespace
}  // namespace trireme
