#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <deque>
#include <thread>
#include <vector>

#include "model/tensor/arena.h"
#include "tests/parallel/comm/filled.h"
#include "tests/parallel/mpi_world.h"

namespace trireme::tests {
namespace {

constexpr std::int64_t kMpiSharedCounts[] = {1, 2, 3, 7, 129, 4097, 70'001};

// Everybody's group, and a region of memory that all ranks share.
class InSharedMemory : public testing::Test {
 protected:
  InSharedMemory() { require(memory_ != nullptr, "the ranks of one host share no memory"); }

  template <class T>
  Tensor take(const std::vector<T>& values) {
    const Tensor tensor =
        arena_.take(Shape{static_cast<std::int64_t>(values.size())}, DTypeOf<T>::kValue);
    std::memcpy(tensor.data, values.data(), tensor.bytes());
    return tensor;
  }
  template <class T>
  static std::vector<T> values_in(const Tensor& tensor) {
    return {tensor.as<T>(), tensor.as<T>() + tensor.count()};
  }
  // What all ranks' filled tensors reduce to.
  template <class T>
  std::vector<T> reduction(Reduce reduce, std::int64_t count) const {
    std::vector<std::vector<T>> all;
    std::vector<const std::byte*> addresses;
    for (int r = 0; r < group_->size(); ++r) all.push_back(filled<T>(r, count));
    for (const std::vector<T>& one : all) {
      addresses.push_back(reinterpret_cast<const std::byte*>(one.data()));
    }
    std::vector<T> out(static_cast<std::size_t>(count));
    comm::reduce_in_order(reduce, DTypeOf<T>::kValue, addresses,
                          reinterpret_cast<std::byte*>(out.data()), count);
    return out;
  }
  template <class T>
  std::vector<T> share_of(const std::vector<T>& whole) const {
    const std::size_t part = whole.size() / static_cast<std::size_t>(group_->size());
    const auto first = whole.begin() + static_cast<std::ptrdiff_t>(part) * group_->rank();
    return {first, first + static_cast<std::ptrdiff_t>(part)};
  }

  Stream stream_;
  std::unique_ptr<Communicator> group_ = all_ranks();
  std::unique_ptr<SharedMemory> memory_ = world().share(std::size_t{16} << 20);
  Arena arena_{memory_ ? memory_->data() : nullptr, std::size_t{16} << 20};
};

template <class T>
class SharedCollective : public InSharedMemory {};
using DTypes = testing::Types<float, double, Bf16, F16, std::int32_t>;
TYPED_TEST_SUITE(SharedCollective, DTypes);

TEST_F(InSharedMemory, every_rank_sees_what_the_others_write) {
  memory_->use_huge_pages();
  for (std::size_t i = 0; i < memory_->bytes(); i += 4096) {
    ASSERT_EQ(memory_->data()[i], std::byte{0});
  }
  group_->barrier(stream_);
  memory_->data()[memory_->bytes() - 1] = static_cast<std::byte>(group_->rank() + 1);
  group_->barrier(stream_);
  for (int r = 0; r < memory_->ranks(); ++r) {
    const SharedMemory::Block& block = memory_->of(r);
    EXPECT_EQ(block.data[block.bytes - 1], static_cast<std::byte>(r + 1));
  }
  EXPECT_TRUE(group_->is_async());
  group_->barrier(stream_);
}

TYPED_TEST(SharedCollective, all_reduce_gives_the_ordered_reduction) {
  for (const Reduce reduce : {Reduce::kSum, Reduce::kMax}) {
    for (const std::int64_t count : kMpiSharedCounts) {
      this->arena_.reset();
      const Tensor tensor = this->take(filled<TypeParam>(this->group_->rank(), count));
      this->group_->all_reduce(this->stream_, tensor, reduce);
      EXPECT_TRUE(are_same(this->template values_in<TypeParam>(tensor),
                           this->template reduction<TypeParam>(reduce, count)))
          << count << " elements";
    }
  }
}

TYPED_TEST(SharedCollective, reduce_scatter_and_all_gather_in_place_and_apart) {
  for (const std::int64_t part : kMpiSharedCounts) {
    const std::int64_t count = part * this->group_->size();
    const std::vector<TypeParam> expected =
        this->template reduction<TypeParam>(Reduce::kSum, count);
    for (const bool in_place : {true, false}) {
      this->arena_.reset();
      const std::vector<TypeParam> before = filled<TypeParam>(this->group_->rank(), count);
      const Tensor whole = this->take(before);
      std::vector<TypeParam> elsewhere(static_cast<std::size_t>(part));
      const Tensor own =
          in_place ? whole.slice(part * this->group_->rank(), part) : over(elsewhere);
      this->group_->reduce_scatter(this->stream_, own, whole);
      EXPECT_TRUE(are_same(this->template values_in<TypeParam>(own), this->share_of(expected)))
          << part << " elements a rank";
      if (!in_place) {
        EXPECT_TRUE(are_same(this->template values_in<TypeParam>(whole), before));
      }
      this->group_->all_gather(this->stream_, whole, own);
      EXPECT_TRUE(are_same(this->template values_in<TypeParam>(whole), expected))
          << part << " elements a rank";
    }
  }
}

// Rank r sends (3 r + 5 to) % 7 * 100 elements to rank `to`, from places in reverse order; the last
// rank sends nothing.
std::int64_t elements_to(int from, int to, int ranks) {
  return from == ranks - 1 ? 0 : (3 * from + 5 * to) % 7 * 100;
}

TYPED_TEST(SharedCollective, all_to_all_of_equal_blocks_and_of_blocks_anywhere) {
  const int own = this->group_->rank(), size = this->group_->size();
  constexpr std::int64_t kPlace = 700;
  const std::vector<TypeParam> all = filled<TypeParam>(own, size * kPlace);
  std::vector<std::int64_t> to, from, places;
  for (int r = 0; r < size; ++r) {
    to.push_back(elements_to(own, r, size));
    from.push_back(elements_to(r, own, size));
    places.push_back((size - 1 - r) * kPlace);
  }
  const std::int64_t sent_count = own == size - 1 ? 0 : size * kPlace;
  for (const bool are_equal : {true, false}) {
    this->arena_.reset();
    const Tensor sent = this->take(all);
    std::vector<TypeParam> received(all.size()), expected(all.size());
    for (int r = 0; r < size; ++r) {
      const std::int64_t count = are_equal ? kPlace : from[static_cast<std::size_t>(r)];
      const std::int64_t theirs = (are_equal ? own : size - 1 - own) * kPlace;
      const std::int64_t here = (are_equal ? r : size - 1 - r) * kPlace;
      for (std::int64_t i = 0; i < count; ++i) {
        expected[static_cast<std::size_t>(here + i)] = value_of<TypeParam>(r, theirs + i);
      }
    }
    if (are_equal) {
      this->group_->all_to_all(this->stream_, over(received), sent);
    } else {
      // Even an empty tensor is in shared memory.
      const std::vector<std::int64_t> nowhere(places.size());
      const auto& starts = sent_count == 0 ? nowhere : places;
      this->group_->all_to_all(this->stream_, {over(received), from, places},
                               {sent.slice(0, sent_count), to, starts});
    }
    EXPECT_TRUE(are_same(received, expected)) << are_equal;
    EXPECT_TRUE(are_same(this->template values_in<TypeParam>(sent), all));
  }
}

// A part that is shared can be gathered into memory that is not.
TEST_F(InSharedMemory, parts_are_gathered_into_memory_of_ones_own) {
  const std::int64_t part = 1001;
  const Tensor own = take(filled<float>(group_->rank(), part));
  std::vector<float> whole(static_cast<std::size_t>(part * group_->size()));
  group_->all_gather(stream_, over(whole), own);
  for (int r = 0; r < group_->size(); ++r) {
    const auto first = whole.begin() + r * part;
    EXPECT_TRUE(are_same(std::vector<float>(first, first + part), filled<float>(r, part)));
  }
}

TYPED_TEST(SharedCollective, many_that_are_started_end_in_order_among_messages) {
  constexpr int kMany = 40;
  constexpr std::int64_t kPart = 3001;
  Communicator& group = *this->group_;
  const std::int64_t count = kPart * group.size();
  const std::vector<TypeParam> expected = this->template reduction<TypeParam>(Reduce::kSum, count);
  const int next = (group.rank() + 1) % group.size();
  const int before = (group.rank() + group.size() - 1) % group.size();
  std::deque<Transfer> transfers;
  std::vector<Tensor> wholes;
  std::vector<TypeParam> message = filled<TypeParam>(group.rank(), 100), arrived(100);
  for (int i = 0; i < kMany; ++i) {
    const Tensor whole = this->take(filled<TypeParam>(group.rank(), count));
    const Tensor own = whole.slice(kPart * group.rank(), kPart);
    wholes.push_back(whole);
    transfers.push_back(group.start_reduce_scatter(this->stream_, own, whole));
    transfers.push_back(group.start_all_gather(this->stream_, whole, own));
    Transfer coming = group.start_receive(this->stream_, over(arrived), before);
    group.send(this->stream_, over(message), next);
    coming.wait();
    EXPECT_TRUE(are_same(arrived, filled<TypeParam>(before, 100)));
    if (i % 7 == 0) {  // goes by MPI, after what was started
      std::vector<TypeParam> other = filled<TypeParam>(group.rank(), count);
      group.all_reduce(this->stream_, over(other), Reduce::kSum);
      EXPECT_TRUE(are_same(other, expected));
    }
  }
  while (!transfers.empty()) {
    transfers.back().wait();
    transfers.pop_back();
  }
  for (const Tensor& whole : wholes) {
    EXPECT_TRUE(are_same(this->template values_in<TypeParam>(whole), expected));
  }
}

TEST_F(InSharedMemory, work_that_was_started_runs_while_the_caller_does_other_work) {
  const Tensor tensor = take(filled<float>(group_->rank(), 1 << 20));
  Transfer transfer = group_->start_all_reduce(stream_, tensor, Reduce::kSum);
  EXPECT_TRUE(transfer.is_pending());
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const std::int64_t slept = flight_recorder_now();
  transfer.wait();
  EXPECT_GT(transfer.ran().begin, 0);
  EXPECT_GT(transfer.ran().end, transfer.ran().begin);
  EXPECT_LT(transfer.ran().begin, slept);
  EXPECT_TRUE(are_same(values_in<float>(tensor), reduction<float>(Reduce::kSum, 1 << 20)));
}

TEST_F(InSharedMemory, ranks_that_disagree_are_told_so) {
  const Tensor tensor = take(filled<float>(group_->rank(), 100));
  const Tensor other = tensor.slice(0, group_->rank() == 0 ? 99 : 100);
  EXPECT_THROW(group_->all_reduce(stream_, other, Reduce::kSum), PeerError);
  group_->barrier(stream_);
  std::vector<float> received(200);
  const std::vector<std::int64_t> to(static_cast<std::size_t>(group_->size()), 10);
  std::vector<std::int64_t> from(to.size(), 11);
  from[static_cast<std::size_t>(group_->rank())] = 10;
  EXPECT_THROW(group_->all_to_all(stream_, {over(received), from}, {tensor, to}), PeerError);
  Transfer transfer =
      group_->start_all_reduce(stream_, tensor, group_->rank() == 0 ? Reduce::kSum : Reduce::kMax);
  EXPECT_THROW(transfer.wait(), PeerError);
  EXPECT_THROW(group_->barrier(stream_), PeerError) << "the group knows that it has failed";
}

}  // namespace
}  // namespace trireme::tests
