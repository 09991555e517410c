#include "checkpoint/format/boxes.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/checkpoint/boxes_of.h"

namespace trireme::checkpoint {
namespace {

template <class Visit>
void each(const Box& box, Shape shape, Visit visit) {
  const int rank = shape.rank();
  Shape at = box.from;
  for (std::int64_t n = 0; n < box.extent.count(); ++n) {
    std::int64_t flat = 0;
    for (int dim = 0; dim < rank; ++dim) flat = flat * shape[dim] + at[dim];
    visit(flat);
    for (int dim = rank - 1; dim >= 0; --dim) {
      if (++at[dim] < box.from[dim] + box.extent[dim]) break;
      at[dim] = box.from[dim];
    }
  }
}

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> kShapes{{1},    {7},       {4, 5},       {5, 1},
                                          {1, 6}, {3, 4, 5}, {2, 1, 4, 3}, {2, 3, 2, 3}};
  return kShapes;
}

TEST(Boxes, tiling_agrees_with_counting_every_element) {
  std::mt19937 random(5);
  int tilings = 0;
  for (int round = 0; round < 20000; ++round) {
    const Shape shape = shapes()[random() % shapes().size()];
    std::vector<Box> boxes;
    // Cut flat at random places, then now and then move, drop or repeat a box.
    std::int64_t at = 0;
    while (at < shape.count()) {
      const auto n = std::min<std::int64_t>(1 + random() % 9, shape.count() - at);
      for (const Box& box : boxes_of(at, n, shape)) boxes.push_back(box);
      at += n;
    }
    std::shuffle(boxes.begin(), boxes.end(), random);
    const unsigned damage = random() % 4;
    Box& victim = boxes[random() % boxes.size()];
    if (damage == 1) boxes.push_back(victim);
    if (damage == 2) boxes.pop_back();
    if (damage == 3) {
      const int dim = int(random() % unsigned(shape.rank()));
      const std::int64_t room = shape[dim] - victim.extent[dim];
      if (room > 0) victim.from[dim] = random() % std::uint64_t(room + 1);
    }
    std::vector<int> hits(std::size_t(shape.count()));
    for (const Box& box : boxes) {
      each(box, shape, [&](std::int64_t e) { ++hits[std::size_t(e)]; });
    }
    const bool exact = std::all_of(hits.begin(), hits.end(), [](int n) { return n == 1; });
    ASSERT_EQ(tile_exactly(boxes, shape), exact);
    tilings += exact ? 1 : 0;
  }
  EXPECT_GT(tilings, 4000);
  EXPECT_LT(tilings, 16000);
}

TEST(Boxes, runs_give_each_element_its_place_in_both_packings) {
  std::mt19937 random(6);
  const auto any_box = [&](Shape shape) {
    Box box{shape, shape};
    for (int dim = 0; dim < shape.rank(); ++dim) {
      box.from[dim] = std::int64_t(random() % std::uint64_t(shape[dim]));
      box.extent[dim] = 1 + std::int64_t(random() % std::uint64_t(shape[dim] - box.from[dim]));
    }
    return box;
  };
  const auto packed = [](const Box& box, Shape shape) {
    std::vector<std::int64_t> elements;
    each(box, shape, [&](std::int64_t at) { elements.push_back(at); });
    return elements;
  };
  int tried = 0;
  for (int round = 0; round < 20000; ++round) {
    const Shape shape = shapes()[random() % shapes().size()];
    const Box a = any_box(shape);
    const Box b = any_box(shape);
    const auto part = intersection(a, b);
    if (!part) continue;
    const auto in_a = packed(a, shape);
    const auto in_b = packed(b, shape);
    const auto want = packed(*part, shape);
    std::size_t next = 0;
    std::int64_t before = -1;
    for_each_run(*part, a, b, [&](auto from, auto to, auto count) {
      ASSERT_GT(from, before);
      for (std::int64_t i = 0; i < count; ++i, ++next) {
        ASSERT_EQ(in_a[std::size_t(from + i)], want[next]);
        ASSERT_EQ(in_b[std::size_t(to + i)], want[next]);
      }
      before = from;
    });
    ASSERT_EQ(next, want.size());
    ++tried;
  }
  EXPECT_GT(tried, 5000);
  int runs = 0;
  for_each_run(all_of({3, 4, 5}), all_of({3, 4, 5}), all_of({3, 4, 5}),
               [&](auto, auto, auto count) { runs += count == 60 ? 1 : 100; });
  EXPECT_EQ(runs, 1);
}

}  // namespace
}  // namespace trireme::checkpoint
