#include <gtest/gtest.h>

#include "tests/parallel/comm/filled.h"
#include "tests/parallel/mpi_world.h"

namespace trireme {
namespace {

using tests::all_ranks;
using tests::are_same;
using tests::filled;
using tests::over;

template <class T>
class Message : public testing::Test {};
using DTypes = testing::Types<float, double, Bf16, F16, std::int32_t>;
TYPED_TEST_SUITE(Message, DTypes);

// One byte, odd, and more than MPI sends before the receiver has come.
constexpr std::int64_t kMpiTransfersCounts[] = {0, 1, 5, 1001, 300'000};

TYPED_TEST(Message, in_flight_both_ways_goes_round_the_ring) {
  Stream stream;
  const auto group = all_ranks();
  const int next = (group->rank() + 1) % group->size();
  const int previous = (group->rank() + group->size() - 1) % group->size();
  for (const std::int64_t count : kMpiTransfersCounts) {
    std::vector<TypeParam> sent = filled<TypeParam>(group->rank(), count), received(sent.size());
    Transfer leaving = group->start_send(stream, over(sent), next);
    Transfer coming = group->start_receive(stream, over(received), previous);
    coming.wait();
    leaving.wait();
    EXPECT_TRUE(are_same(received, filled<TypeParam>(previous, count))) << count;
  }
}

TEST(MpiCommunicator, keeps_the_order_of_messages_and_lets_collectives_pass_between) {
  Stream stream;
  const auto group = all_ranks();
  const int last = group->size() - 1;
  constexpr int kMessages = 20;
  std::vector<std::vector<std::int32_t>> messages(kMessages);
  std::vector<Transfer> transfers;
  for (int m = 0; m < kMessages; ++m) {
    std::vector<std::int32_t>& message = messages[static_cast<std::size_t>(m)];
    message.assign(m % 2 ? 3 : 50'000, group->rank() == 0 ? m : -1);
    if (group->rank() == 0) transfers.push_back(group->start_send(stream, over(message), last));
    if (group->rank() == last) {
      transfers.push_back(group->start_receive(stream, over(message), 0));
    }
  }
  std::vector<std::int32_t> sum(30'000, 1);
  group->all_reduce(stream, over(sum), Reduce::kSum);
  EXPECT_EQ(sum, std::vector<std::int32_t>(30'000, group->size()));
  for (Transfer& transfer : transfers) transfer.wait();
  if (group->rank() != last) return;
  for (int m = 0; m < kMessages; ++m) {
    EXPECT_EQ(messages[static_cast<std::size_t>(m)].front(), m);
    EXPECT_EQ(messages[static_cast<std::size_t>(m)].back(), m);
  }
}

TEST(MpiCommunicator, sends_and_receives_one_after_the_other) {
  Stream stream;
  const auto group = all_ranks();
  std::vector<double> values = filled<double>(group->rank(), 10'000);
  if (group->rank() == 0) {
    for (int r = 1; r < group->size(); ++r) group->send(stream, over(values), r);
  } else {
    group->receive(stream, over(values), 0);
  }
  EXPECT_TRUE(are_same(values, filled<double>(0, 10'000)));
}

// The message of the PeerError; empty when there is none.
template <class Call>
std::string peer_error(const Call& call) {
  try {
    call();
  } catch (const PeerError& error) {
    EXPECT_EQ(error.code(), ExitCode::kPeer);
    return error.what();
  }
  return "";
}

TEST(MpiCommunicator, names_the_peer_that_sent_something_else) {
  Stream stream;
  const auto group = all_ranks();
  std::vector<float> four(4), three(3), five(5);
  if (group->rank() == 0) {
    group->send(stream, over(four), 1);
    group->send(stream, over(four), 1);
  } else if (group->rank() == 1) {
    const std::string longer = peer_error([&] { group->receive(stream, over(three), 0); });
    EXPECT_NE(longer.find("receive in group 'all_ranks', rank 1 of"), std::string::npos) << longer;
    EXPECT_NE(longer.find("with rank 0 failed: "), std::string::npos) << longer;
    EXPECT_NE(longer.find("truncate"), std::string::npos) << longer;
    const std::string shorter = peer_error([&] { group->receive(stream, over(five), 0); });
    EXPECT_NE(shorter.find("with rank 0: 4 float32 arrived, not 5"), std::string::npos) << shorter;
  }
}

TEST(MpiCommunicator, names_the_peer_whose_collective_is_of_another_size) {
  Stream stream;
  const auto sound = all_ranks();
  const auto group = all_ranks();
  const int size = group->size();
  std::vector<float> part(group->rank() == 0 ? 2 : 3), whole(part.size() * size);
  const std::string text =
      peer_error([&] { group->reduce_scatter(stream, over(part), over(whole)); });
  EXPECT_NE(text.find(group->rank() == 0 ? "with rank" : "with rank 0"), std::string::npos) << text;
  sound->barrier(stream);  // nothing of the broken group is under way when it goes
}

TEST(MpiCommunicator, gives_a_receive_up_when_an_exception_passes) {
  Stream stream;
  const auto group = all_ranks();
  std::vector<float> abandoned(3), values = filled<float>(group->rank(), 3);
  if (group->rank() == 1) {
    try {
      const Transfer transfer = group->start_receive(stream, over(abandoned), 0);
      throw DataError("no more tokens");
    } catch (const DataError&) {
    }
  }
  group->barrier(stream);
  if (group->rank() == 0) group->send(stream, over(values), 1);
  if (group->rank() == 1) {
    group->receive(stream, over(values), 0);
    EXPECT_TRUE(are_same(values, filled<float>(0, 3)));
    EXPECT_EQ(abandoned, std::vector<float>(3));
  }
}

TEST(MpiCommunicator, refuses_itself_and_strangers_as_peers) {
  Stream stream;
  const auto group = all_ranks();
  std::vector<float> values(3);
  EXPECT_THROW(group->send(stream, over(values), group->rank()), Error);
  EXPECT_THROW(group->receive(stream, over(values), group->size()), Error);
  EXPECT_THROW(group->broadcast(stream, over(values), -1), Error);
}

}  // namespace
}  // namespace trireme
