#include "model/params/param_store.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

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

template <class T>
void expect_rounded_masters() {
  Stored held;
  declare(held.store, {});
  held.store.allocate({held.weights, held.masters, &held.gradients}, DTypeOf<T>::kValue);
  held.store.initialize(9);
  const Tensor values = held.store.values();
  const Tensor masters = held.store.masters();
  ASSERT_EQ(values.count(), masters.count());
  for (std::int64_t i = 0; i < values.count(); ++i) {
    EXPECT_EQ(values.as<T>()[i].bits, T(masters.as<float>()[i]).bits);
  }
}

TEST(ParamStore, weights_of_sixteen_bits_are_their_rounded_masters) {
  expect_rounded_masters<Bf16>();
  expect_rounded_masters<F16>();
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

TEST(ParamStore, padding_is_zero_and_belongs_to_no_parameter) {
  for (int index = 0; index < 3; ++index) {
    Stored held;
    // 7 rows shared out as 12 are: 4, then 3 and one of padding, then padding alone.
    held.store.declare({.name = "table",
                        .shape = {7, 6},
                        .cut = {.dim = 0, .slice = {index, 3}, .padded = 12},
                        .init_scale = 0.5,
                        .decay = true});
    held.store.allocate({held.weights, held.masters, &held.gradients}, DType::kF32);
    held.store.initialize(9);
    const Weight& weight = held.store.weights().front();
    const Param& param = weight.parts.front();
    const std::int64_t rows = std::vector<std::int64_t>{4, 3, 0}[static_cast<std::size_t>(index)];
    EXPECT_EQ(weight.value.shape, (Shape{4, 6}));
    EXPECT_EQ(param.box, (Box{{std::min(4 * index, 7), 0}, {rows, 6}}));
    EXPECT_EQ(param.value.shape, param.box.extent);
    EXPECT_EQ(param.is_primary_replica(), rows > 0);
    EXPECT_EQ(weight.parts.size(), 1U);
    const std::vector<float> all = drawn("table", 9, 0, 42);
    for (std::int64_t i = 0; i < weight.value.count(); ++i) {
      const std::int64_t row = 4 * index + i / 6;
      const float expected = row < 7 ? 0.5f * all[static_cast<std::size_t>(row * 6 + i % 6)] : 0;
      EXPECT_EQ(weight.value.as<float>()[i], expected) << index << " " << i;
    }
  }
}

// Three units of 10,000, 100 and 5,000 elements and a gradient kept apart.
void declare_units(ParamStore& store) {
  store.begin_unit(-1, /*alone=*/true);
  Weight& table = store.declare({.name = "table", .shape = {100, 100}, .init_scale = 0.5});
  store.begin_unit(0);
  store.declare({.name = "small", .shape = {100}, .init = Init::kOnes});
  store.begin_unit(1);
  store.declare({.name = "w", .shape = {50, 100}, .init_scale = 0.5});
  store.declare_apart(table);
}

TEST(Sharing, every_element_is_owned_once) {
  for (const int parts : {1, 2, 3}) {
    for (const std::int64_t bucket : {std::int64_t{0}, std::int64_t{4096}, Sharing::kWholeStore}) {
      std::map<std::string, std::vector<int>> owners;
      for (int part = 0; part < parts; ++part) {
        ParamStore store;
        declare_units(store);
        Arena values(1 << 18), gradients(1 << 18);
        store.allocate({values, values, &gradients}, DType::kF32,
                       {.parts = parts, .part = part, .bucket = bucket});
        for (const ParamShard& shard : store.shards()) {
          auto& of = owners[shard.param->spec.name];
          of.resize(static_cast<std::size_t>(shard.param->box.extent.count()));
          for (std::int64_t i = 0; i < shard.count(); ++i) {
            ++of[static_cast<std::size_t>(shard.first + i)];
          }
        }
        EXPECT_EQ(store.grads().count() - store.values().count(),
                  store.buckets().back().part * parts);
        for (const ParamStore::Bucket& each : store.buckets()) {
          EXPECT_EQ(each.part % ParamStore::kGrain, 0);
        }
      }
      ASSERT_EQ(owners.size(), 3u);
      for (const auto& [name, of] : owners) {
        EXPECT_EQ(of, std::vector<int>(of.size(), 1)) << name << " of " << parts;
      }
    }
  }
}

// A unit beside each of two blocks' has the experts, which are sharded over fewer ranks.
TEST(Sharing, experts_have_units_buckets_and_shards_of_their_own) {
  ParamStore store;
  for (const int layer : {0, 1}) {
    store.begin_unit(layer);
    const auto declare = [&](const char* name, ParamGroup group) {
      store.declare({.name = say(layer, name), .shape = {70, 100}, .group = group});
    };
    declare(".before", ParamGroup::kDense);
    declare(".up", ParamGroup::kExperts);
    declare(".down", ParamGroup::kExperts);
    declare(".after", ParamGroup::kDense);
  }
  Arena values(1 << 19), gradients(1 << 19);
  store.allocate({values, values, &gradients}, DType::kF32,
                 {.parts = 4, .part = 3, .expert_parts = 2, .expert_part = 1});
  ASSERT_EQ(store.units().size(), 4u);
  EXPECT_EQ(store.units()[0].experts, 1);
  EXPECT_EQ(store.units()[1].experts, -1);
  EXPECT_EQ(store.units()[3].layer, 1);
  ASSERT_EQ(store.buckets().size(), 2u);
  const ParamStore::Bucket &dense = store.buckets()[0], &experts = store.buckets()[1];
  EXPECT_EQ(dense.units, (std::vector{0, 2}));
  EXPECT_EQ(experts.units, (std::vector{1, 3}));
  EXPECT_EQ(dense.parts, 4);
  EXPECT_EQ(experts.parts, 2);
  EXPECT_EQ(experts.begin, dense.count());
  for (const ParamShard& shard : store.shards()) {
    const bool is_expert = shard.param->spec.group == ParamGroup::kExperts;
    const ParamStore::Bucket& bucket = is_expert ? experts : dense;
    const std::int64_t at = (shard.grad.data - store.grads().data) / 4;
    EXPECT_GE(at, bucket.begin + bucket.owned * bucket.part);
    EXPECT_LE(at + shard.count(), bucket.begin + (bucket.owned + 1) * bucket.part);
  }
  for (const Weight& weight : store.weights()) {
    const Param& param = weight.parts.front();
    if (param.spec.group == ParamGroup::kExperts) {
      EXPECT_EQ((param.offset - store.units()[weight.unit].begin) % ParamStore::kGrain, 0);
    }
  }
}

TEST(Sharing, owned_parts_are_initialised_as_the_whole_is) {
  ParamStore whole;
  declare_units(whole);
  Arena memory(1 << 19);
  whole.allocate({memory, memory, nullptr}, DType::kF32);
  whole.initialize(7);
  for (int part = 0; part < 2; ++part) {
    ParamStore store;
    declare_units(store);
    Arena values(1 << 18), masters(1 << 18);
    store.allocate({values, masters, nullptr}, DType::kBf16,
                   {.parts = 2, .part = part, .bucket = 0, .values = true, .masters = true});
    store.initialize(7);
    for (const ParamShard& shard : store.shards()) {
      for (const Weight& weight : whole.weights()) {
        const Param& param = weight.parts.front();
        if (param.spec.name != shard.param->spec.name) continue;
        for (std::int64_t i = 0; i < shard.count(); ++i) {
          const float expected = param.value.as<float>()[shard.first + i];
          ASSERT_EQ(shard.master.as<float>()[i], expected);
          ASSERT_EQ(shard.value.as<Bf16>()[i].bits, Bf16(expected).bits);
        }
      }
    }
  }
}

TEST(Cut, a_run_of_a_box_is_up_to_three_boxes) {
  const Box box{{2, 3}, {5, 4}};
  const auto boxes = boxes_of_run(box, 3, 11);  // the last of row 0, rows 1 and 2, two of row 3
  ASSERT_EQ(boxes.size(), 3u);
  EXPECT_EQ(boxes[0].box, (Box{{2, 6}, {1, 1}}));
  EXPECT_EQ(boxes[1].box, (Box{{3, 3}, {2, 4}}));
  EXPECT_EQ(boxes[2].box, (Box{{5, 3}, {1, 2}}));
  EXPECT_EQ(boxes[1].at, 1);
  EXPECT_EQ(boxes[2].at, 9);
  EXPECT_EQ(boxes_of_run(box, 0, 20).size(), 1u);
  EXPECT_EQ(boxes_of_run({{7}, {9}}, 2, 3)[0].box, (Box{{9}, {3}}));
}

TEST(Cut, one_that_does_not_divide_is_refused) {
  EXPECT_THROW(placement({7, 3}, {0, {0, 2}}), ConfigError);
}

TEST(Cut, few_pieces_are_held_by_neighbours_and_counted_once) {
  for (const auto& [pieces, holders] : {std::pair{2, 4}, {1, 4}, {4, 4}, {8, 4}, {3, 1}}) {
    std::vector<int> held(static_cast<std::size_t>(pieces));
    std::vector<int> counted(static_cast<std::size_t>(pieces));
    for (int index = 0; index < holders; ++index) {
      const Cut cut = cut_pieces(0, pieces, {index, holders});
      const Box box = placement({pieces * 5}, cut);
      ASSERT_EQ(box.extent[0] % 5, 0);
      for (std::int64_t at = box.from[0]; at < box.from[0] + box.extent[0]; at += 5) {
        ++held[static_cast<std::size_t>(at / 5)];
        counted[static_cast<std::size_t>(at / 5)] += cut.replica.index == 0;
        // The piece of this holder's share of, say, twelve queries a piece.
        EXPECT_EQ(at / 5 * holders / pieces, index / cut.replica.count * cut.replica.count);
      }
      EXPECT_EQ(cut.replica.count, std::max(1, holders / pieces));
    }
    for (const int times : held) EXPECT_EQ(times, std::max(1, holders / pieces));
    for (const int times : counted) EXPECT_EQ(times, 1);
  }
  EXPECT_THROW(cut_pieces(0, 3, {0, 2}), ConfigError);
  EXPECT_THROW(cut_pieces(0, 4, {0, 6}), ConfigError);
}

}  // namespace
}  // namespace trireme
