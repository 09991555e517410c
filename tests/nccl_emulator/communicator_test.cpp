// The communicator over NCCL, by its contract and beside the bits of the host's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "tests/nccl_emulator/device_values.h"
#include "tests/nccl_emulator/emulated_job.h"

namespace trireme {
namespace {

using test::DeviceValues;
using test::EmulatedJob;
using test::EmulatedRank;
using test::run_emulated;

std::vector<int> first(int ranks) {
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::vector<float> filled(int rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto word = philox(static_cast<std::uint64_t>(rank), i)[0];
    values[i] = static_cast<float>(word) / 4294967296.0f - 0.5f;
  }
  return values;
}

Tensor host_tensor(std::vector<float>& values) {
  return {reinterpret_cast<std::byte*>(values.data()), DType::kF32,
          Shape{static_cast<std::int64_t>(values.size())}, Device{}};
}

class Ranks : public testing::TestWithParam<int> {
 protected:
  EmulatedJob job() const { return {.job = {.ranks = GetParam()}}; }
};

TEST_P(Ranks, sum_as_the_host_does_and_in_order_with_its_bits) {
  for (const bool ordered : {false, true}) {
    EmulatedJob options = job();
    options.nccl.ordered_sums = ordered;
    run_emulated(options, [&](EmulatedRank& own) {
      const auto group = own.group("all", first(GetParam()));
      Stream stream(own.device), host;
      const int size = group->size();
      for (const std::size_t count : {3, 40, 5000}) {
        std::vector<float> expected = filled(own.rank, count);
        const DeviceValues values(expected, stream);
        group->all_reduce(stream, values.tensor(), Reduce::kSum);
        group->all_reduce(host, host_tensor(expected), Reduce::kSum);
        const std::vector<float> found = values.read();
        for (std::size_t i = 0; i < count; ++i) {
          ASSERT_NEAR(found[i], expected[i], ordered ? 0 : 1e-6 * size) << i;
        }
        std::vector<float> whole = filled(own.rank, count * size), part(count);
        const DeviceValues of_all(whole, stream), of_rank(part, stream);
        group->reduce_scatter(stream, of_rank.tensor(), of_all.tensor());
        group->reduce_scatter(host, host_tensor(part), host_tensor(whole));
        const std::vector<float> scattered = of_rank.read();
        for (std::size_t i = 0; i < count; ++i) {
          ASSERT_NEAR(scattered[i], part[i], ordered ? 0 : 1e-6 * size) << i;
        }
      }
    });
  }
}

TEST_P(Ranks, keep_nan_in_a_maximum) {
  run_emulated(job(), [&](EmulatedRank& own) {
    const auto group = own.group("all", first(GetParam()));
    Stream stream(own.device);
    std::vector<float> values(3000, static_cast<float>(own.rank));
    if (own.rank == 0) values[2500] = std::numeric_limits<float>::quiet_NaN();
    const DeviceValues on_device(values, stream);
    group->all_reduce(stream, on_device.tensor(), Reduce::kMax);
    const std::vector<float> found = on_device.read();
    EXPECT_EQ(found[0], static_cast<float>(GetParam() - 1));
    EXPECT_TRUE(std::isnan(found[2500]));
  });
}

TEST_P(Ranks, gather_exchange_and_broadcast) {
  run_emulated(job(), [&](EmulatedRank& own) {
    const auto group = own.group("all", first(GetParam()), Messages::kSent);
    Stream stream(own.device);
    const int size = group->size();
    const std::vector<float> part = filled(own.rank, 7);
    const DeviceValues of_rank(part, stream), whole(std::vector<float>(7 * size), stream);
    group->all_gather(stream, whole.tensor(), of_rank.tensor());
    const DeviceValues received(std::vector<float>(7 * size), stream);
    group->all_to_all(stream, received.tensor(), whole.tensor());
    const DeviceValues root(part, stream), came(std::vector<float>(7), stream);
    group->broadcast(stream, root.tensor(), size - 1);
    Transfer coming = group->start_receive(stream, came.tensor(), (own.rank + size - 1) % size);
    Transfer going = group->start_send(stream, of_rank.tensor(), (own.rank + 1) % size);
    coming.wait();
    going.wait();
    const std::vector<float> gathered = whole.read(), exchanged = received.read();
    for (int r = 0; r < size; ++r) {
      const std::vector<float> of_other = filled(r, 7), of_own = filled(own.rank, 7);
      EXPECT_TRUE(std::equal(of_other.begin(), of_other.end(), gathered.begin() + 7 * r));
      EXPECT_TRUE(std::equal(of_own.begin(), of_own.end(), exchanged.begin() + 7 * r));
    }
    EXPECT_EQ(root.read(), filled(size - 1, 7));
    EXPECT_EQ(came.read(), filled((own.rank + size - 1) % size, 7));
    group->barrier(stream);
  });
}

TEST_P(Ranks, exchange_unequal_blocks) {
  run_emulated(job(), [&](EmulatedRank& own) {
    const auto group = own.group("all", first(GetParam()));
    Stream stream(own.device);
    const int size = group->size();
    const auto sent_by = [](int from, int to) { return std::int64_t{(from + 2 * to) % 4}; };
    std::vector<std::int64_t> to, from;
    for (int r = 0; r < size; ++r) {
      to.push_back(sent_by(own.rank, r));
      from.push_back(sent_by(r, own.rank));
    }
    const DeviceValues sent(filled(own.rank, 3 * size), stream),
        received(std::vector<float>(3 * size), stream);
    group->all_to_all(stream, {received.tensor(), from}, {sent.tensor(), to});
    std::vector<float> expected;
    for (int r = 0; r < size; ++r) {
      std::int64_t begin = 0;
      for (int before = 0; before < own.rank; ++before) begin += sent_by(r, before);
      const std::vector<float> of_other = filled(r, 3 * size);
      expected.insert(expected.end(), of_other.begin() + begin,
                      of_other.begin() + begin + from[static_cast<std::size_t>(r)]);
    }
    expected.resize(3 * size);
    EXPECT_EQ(received.read(), expected);
  });
}

TEST_P(Ranks, share_one_communicator_and_its_memory_in_groups_with_equal_members) {
  run_emulated(job(), [&](EmulatedRank& own) {
    const auto one = own.group("data", first(GetParam()));
    const auto other = own.group("all", first(GetParam()));
    EXPECT_EQ(one->buffer_bytes(), 1024u);
    EXPECT_EQ(other->buffer_bytes(), 0u);
  });
}

INSTANTIATE_TEST_SUITE_P(Of, Ranks, testing::Values(2, 3, 4, 8));

}  // namespace
}  // namespace trireme
