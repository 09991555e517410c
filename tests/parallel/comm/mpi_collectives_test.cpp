#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <thread>

#include "tests/parallel/comm/filled.h"
#include "tests/parallel/mpi_world.h"

namespace trireme {
namespace {

using tests::all_ranks;
using tests::are_same;
using tests::filled;
using tests::over;
using tests::value_of;
using tests::world;

// None, one, fewer than ranks, odd, a small all_reduce and several pieces of every buffer.
constexpr std::int64_t kMpiCollectivesCounts[] = {0, 1, 2, 3, 7, 129, 4097, 70'001};
// A buffer takes 64 bytes a rank at least.
constexpr std::size_t kBuffers[] = {256, 1000, World::kBufferBytes};

template <class T>
class Collective : public testing::Test {};
using DTypes = testing::Types<float, double, Bf16, F16, std::int32_t>;
TYPED_TEST_SUITE(Collective, DTypes);

// What all ranks' filled tensors reduce to, in rank order.
template <class T>
std::vector<T> reduction(Reduce reduce, std::int64_t count) {
  std::vector<std::vector<T>> all;
  std::vector<const std::byte*> addresses;
  for (int r = 0; r < world().size(); ++r) all.push_back(filled<T>(r, count));
  for (const std::vector<T>& one : all) {
    addresses.push_back(reinterpret_cast<const std::byte*>(one.data()));
  }
  std::vector<T> out(static_cast<std::size_t>(count));
  comm::reduce_in_order(reduce, DTypeOf<T>::kValue, addresses,
                        reinterpret_cast<std::byte*>(out.data()), count);
  return out;
}

TYPED_TEST(Collective, all_reduce_gives_the_ordered_reduction_whatever_the_buffer) {
  Stream stream;
  for (const std::size_t buffer : kBuffers) {
    const auto group = all_ranks(buffer);
    for (const Reduce reduce : {Reduce::kSum, Reduce::kMax}) {
      for (const std::int64_t count : kMpiCollectivesCounts) {
        std::vector<TypeParam> values = filled<TypeParam>(group->rank(), count);
        group->all_reduce(stream, over(values), reduce);
        EXPECT_TRUE(are_same(values, reduction<TypeParam>(reduce, count)))
            << count << " elements through " << buffer << " bytes";
      }
    }
  }
}

TYPED_TEST(Collective, all_gather_puts_parts_in_rank_order_in_place_and_apart) {
  Stream stream;
  const auto group = all_ranks();
  for (const std::int64_t count : kMpiCollectivesCounts) {
    std::vector<TypeParam> expected;
    for (int r = 0; r < group->size(); ++r) {
      const std::vector<TypeParam> part = filled<TypeParam>(r, count);
      expected.insert(expected.end(), part.begin(), part.end());
    }
    std::vector<TypeParam> part = filled<TypeParam>(group->rank(), count);
    std::vector<TypeParam> whole(expected.size());
    group->all_gather(stream, over(whole), over(part));
    EXPECT_TRUE(are_same(whole, expected)) << count;

    std::vector<TypeParam> in_place(expected.size());
    std::copy(part.begin(), part.end(), in_place.begin() + group->rank() * count);
    const Tensor place = over(in_place).slice(group->rank() * count, count);
    group->all_gather(stream, over(in_place), place);
    EXPECT_TRUE(are_same(in_place, expected)) << count;
  }
}

TYPED_TEST(Collective, reduce_scatter_sums_each_place_and_leaves_the_rest_of_the_whole) {
  Stream stream;
  for (const std::size_t buffer : kBuffers) {
    const auto group = all_ranks(buffer);
    for (const std::int64_t count : kMpiCollectivesCounts) {
      const std::int64_t first = group->rank() * count;
      const std::vector<TypeParam> sum = reduction<TypeParam>(Reduce::kSum, count * group->size());
      const std::vector<TypeParam> expected(sum.begin() + first, sum.begin() + first + count);
      const std::vector<TypeParam> before = filled<TypeParam>(group->rank(), count * group->size());

      std::vector<TypeParam> whole = before;
      std::vector<TypeParam> part(static_cast<std::size_t>(count));
      group->reduce_scatter(stream, over(part), over(whole));
      EXPECT_TRUE(are_same(part, expected)) << count;
      EXPECT_TRUE(are_same(whole, before)) << count;

      group->reduce_scatter(stream, over(whole).slice(first, count), over(whole));
      std::vector<TypeParam> after = before;
      std::copy(expected.begin(), expected.end(), after.begin() + first);
      EXPECT_TRUE(are_same(whole, after)) << count;
    }
  }
}

TYPED_TEST(Collective, all_to_all_transposes_blocks) {
  Stream stream;
  const auto group = all_ranks();
  for (const std::int64_t block : kMpiCollectivesCounts) {
    std::vector<TypeParam> sent = filled<TypeParam>(group->rank(), block * group->size());
    std::vector<TypeParam> received(sent.size()), expected(sent.size());
    for (int r = 0; r < group->size(); ++r) {
      for (std::int64_t i = 0; i < block; ++i) {
        expected[static_cast<std::size_t>(r * block + i)] =
            value_of<TypeParam>(r, group->rank() * block + i);
      }
    }
    group->all_to_all(stream, over(received), over(sent));
    EXPECT_TRUE(are_same(received, expected)) << block;
  }
}

// Rank r sends (3 r + 5 to) % 7 elements to rank `to`, times `scale`: some blocks are empty.
std::int64_t elements_sent(int from, int to, std::int64_t scale) {
  return (3 * from + 5 * to) % 7 * scale;
}

TYPED_TEST(Collective, all_to_all_of_unequal_blocks) {
  Stream stream;
  const auto group = all_ranks();
  const int own = group->rank(), size = group->size();
  for (const std::int64_t scale : {1, 1000}) {
    std::vector<std::int64_t> to, from;
    for (int r = 0; r < size; ++r) {
      to.push_back(elements_sent(own, r, scale));
      from.push_back(elements_sent(r, own, scale));
    }
    const std::int64_t most = 6 * scale * size;
    std::vector<TypeParam> sent = filled<TypeParam>(own, most);
    std::vector<TypeParam> received(sent.size()), expected(sent.size());
    std::int64_t at = 0;
    for (int r = 0; r < size; ++r) {
      std::int64_t first = 0;
      for (int before = 0; before < own; ++before) first += elements_sent(r, before, scale);
      for (std::int64_t i = 0; i < from[static_cast<std::size_t>(r)]; ++i) {
        expected[static_cast<std::size_t>(at++)] = value_of<TypeParam>(r, first + i);
      }
    }
    group->all_to_all(stream, {over(received), from}, {over(sent), to});
    EXPECT_TRUE(are_same(received, expected)) << scale;
    EXPECT_THROW(group->all_to_all(stream, over(received), {over(sent), to}), Error);
  }
}

// Blocks are sent from, and received to, places of their own: here in reverse order, with a gap.
TYPED_TEST(Collective, all_to_all_of_blocks_anywhere) {
  Stream stream;
  const auto group = all_ranks();
  const int own = group->rank(), size = group->size();
  constexpr std::int64_t kPlace = 7000;
  std::vector<std::int64_t> to, from, places;
  for (int r = 0; r < size; ++r) {
    to.push_back(elements_sent(own, r, 1000));
    from.push_back(elements_sent(r, own, 1000));
    places.push_back((size - 1 - r) * kPlace);
  }
  const std::vector<TypeParam> sent = filled<TypeParam>(own, size * kPlace);
  std::vector<TypeParam> source = sent, received(sent.size()), expected(sent.size());
  for (int r = 0; r < size; ++r) {
    for (std::int64_t i = 0; i < from[static_cast<std::size_t>(r)]; ++i) {
      expected[static_cast<std::size_t>((size - 1 - r) * kPlace + i)] =
          value_of<TypeParam>(r, (size - 1 - own) * kPlace + i);
    }
  }
  group->all_to_all(stream, {over(received), from, places}, {over(source), to, places});
  EXPECT_TRUE(are_same(received, expected));
  EXPECT_TRUE(are_same(source, sent));
}

TYPED_TEST(Collective, broadcast_spreads_what_any_root_has) {
  Stream stream;
  const auto group = all_ranks();
  for (int root = 0; root < group->size(); ++root) {
    for (const std::int64_t count : kMpiCollectivesCounts) {
      std::vector<TypeParam> values = filled<TypeParam>(group->rank(), count);
      group->broadcast(stream, over(values), root);
      EXPECT_TRUE(are_same(values, filled<TypeParam>(root, count))) << root << ": " << count;
    }
  }
}

TEST(MpiCommunicator, sums_as_near_to_float64_as_the_dtype_allows) {
  Stream stream;
  const auto group = all_ranks();
  const std::int64_t count = 10'000;
  std::vector<double> exact(static_cast<std::size_t>(count)), magnitude(exact.size());
  for (int r = 0; r < group->size(); ++r) {
    for (std::int64_t i = 0; i < count; ++i) {
      const double value = static_cast<double>(value_of<float>(r, i));
      exact[static_cast<std::size_t>(i)] += value;
      magnitude[static_cast<std::size_t>(i)] += std::abs(value);
    }
  }
  std::vector<float> single = filled<float>(group->rank(), count);
  std::vector<Bf16> brief = filled<Bf16>(group->rank(), count);
  std::vector<F16> half = filled<F16>(group->rank(), count);
  group->all_reduce(stream, over(single), Reduce::kSum);
  group->all_reduce(stream, over(brief), Reduce::kSum);
  group->all_reduce(stream, over(half), Reduce::kSum);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    // One rounding per addition in float32; bfloat16 and float16 add their own at the end.
    const double rounding = group->size() * std::ldexp(magnitude[i], -24);
    EXPECT_NEAR(single[i], exact[i], rounding);
    EXPECT_NEAR(static_cast<float>(brief[i]), exact[i],
                rounding + std::ldexp(std::abs(exact[i]), -8));
    EXPECT_NEAR(static_cast<float>(half[i]), exact[i],
                rounding + std::ldexp(std::abs(exact[i]), -11) + 0x1p-25);
  }
}

TEST(MpiCommunicator, takes_the_buffer_it_was_told_to_and_a_group_of_one_takes_none) {
  std::vector<int> ranks;
  for (int r = 0; r < world().size(); ++r) ranks.push_back(r);
  EXPECT_EQ(world().split("all", ranks, 12'345)->buffer_bytes(), 12'345u);
  EXPECT_EQ(world().split("alone", {world().rank()})->buffer_bytes(), 0u);
  EXPECT_THROW(all_ranks(63), Error) << "less than a cache line a rank";
}

TEST(MpiCommunicator, moves_nothing_on_a_planning_stream) {
  const auto group = all_ranks();
  if (group->rank() > 0) return;  // nobody answers
  Tally tally;
  Stream planning({}, tally);
  std::vector<float> part = filled<float>(0, 100), whole(100 * group->size());
  group->all_reduce(planning, over(part), Reduce::kSum);
  group->all_gather(planning, over(whole), over(part));
  group->reduce_scatter(planning, over(part), over(whole));
  group->broadcast(planning, over(part), 0);
  group->barrier(planning);
  group->send(planning, over(part), 1);
  group->receive(planning, over(part), 1);
  EXPECT_TRUE(are_same(part, filled<float>(0, 100)));
  EXPECT_THROW(group->all_gather(planning, over(part), over(part)), Error) << "shapes count";
}

TEST(MpiCommunicator, barrier_waits_for_the_last_rank) {
  using Clock = std::chrono::steady_clock;
  Stream stream;
  const auto group = all_ranks();
  group->barrier(stream);
  const Clock::time_point start = Clock::now();
  if (group->rank() == group->size() - 1)
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  group->barrier(stream);
  EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(150));
}

TEST(World, is_split_into_groups_in_the_order_asked_for) {
  Stream stream;
  std::vector<int> like_me;  // ranks of my parity, from the last to the first
  for (int r = world().size() - 1; r >= 0; --r) {
    if (r % 2 == world().rank() % 2) like_me.push_back(r);
  }
  const auto group = world().split("parity", like_me);
  ASSERT_EQ(group->size(), static_cast<int>(like_me.size()));
  EXPECT_EQ(like_me[static_cast<std::size_t>(group->rank())], world().rank());
  std::vector<std::int32_t> ranks(like_me.size()), mine{world().rank()};
  group->all_gather(stream, over(ranks), over(mine));
  EXPECT_EQ(ranks, like_me);
}

TEST(World, refuses_groups_the_ranks_do_not_agree_on) {
  std::vector<int> ranks{0, world().rank() == 0 ? 1 : world().rank()};
  if (world().rank() == 0 && world().size() == 2) ranks = {1, 0};
  EXPECT_THROW(world().split("muddle", ranks), Error);
}

TEST(World, knows_who_shares_its_memory) {
  EXPECT_EQ(world().local_rank(), world().rank()) << "all on one machine here";
  EXPECT_EQ(world().local_size(), world().size());
  EXPECT_EQ(world().hosts(), std::vector<std::string>(static_cast<std::size_t>(world().size()),
                                                      world().hosts().front()));
}

TEST(World, refuses_a_device_that_is_not_there_and_stays_with_MPI) {
  const Device device{Device::Kind::kCuda, 1000};
  EXPECT_THROW(world().use_device(device), EnvironmentError);
  world().use_device(Device{});
  EXPECT_EQ(world().transport(), "MPI");
}

}  // namespace
}  // namespace trireme
