#include "parallel/comm/self_communicator.h"

#include <gtest/gtest.h>

#include <vector>

namespace trireme {
namespace {

Tensor over(std::vector<float>& values) {
  return {reinterpret_cast<std::byte*>(values.data()), DType::kF32,
          Shape{static_cast<std::int64_t>(values.size())}, Device{}};
}

TEST(SelfCommunicator, leaves_in_place_tensors_and_copies_others) {
  SelfCommunicator self;
  Stream stream;
  std::vector<float> a{1, 2, 3}, b(3), c(3), d(3);
  self.all_reduce(stream, over(a), Reduce::kSum);
  self.broadcast(stream, over(a), 0);
  self.all_gather(stream, over(a), over(a));
  self.reduce_scatter(stream, over(a), over(a));
  EXPECT_EQ(a, (std::vector<float>{1, 2, 3}));
  self.all_gather(stream, over(b), over(a));
  self.reduce_scatter(stream, over(c), over(b));
  self.all_to_all(stream, over(d), over(c));
  EXPECT_EQ(d, a);
  self.barrier(stream);
}

TEST(SelfCommunicator, moves_nothing_on_a_planning_stream) {
  SelfCommunicator self;
  Tally tally;
  Stream planning({}, tally);
  std::vector<float> a{1, 2, 3}, b(3);
  self.all_gather(planning, over(b), over(a));
  // Addresses mean nothing here: all of planning's arenas begin at one.
  self.all_to_all(planning, over(a), over(a));
  EXPECT_EQ(b, std::vector<float>(3));
}

TEST(SelfCommunicator, refuses_peers_and_shapes_it_cannot_serve) {
  SelfCommunicator self;
  Stream stream;
  std::vector<float> a(4), b(3);
  EXPECT_THROW(self.send(stream, over(a), 0), Error);
  EXPECT_THROW(self.receive(stream, over(a), 1), Error);
  EXPECT_THROW(self.broadcast(stream, over(a), 1), Error);
  EXPECT_THROW(self.all_gather(stream, over(a), over(b)), Error);
  EXPECT_THROW(self.all_to_all(stream, over(a), over(a)), Error) << "they overlap";
  EXPECT_THROW(self.reduce_scatter(stream, over(a).slice(0, 3), over(a).slice(1, 3)), Error);
}

struct Counted : Transfer::Pending {
  explicit Counted(int* waits, bool fails = false) : waits_(waits), fails_(fails) {}
  void wait() override {
    ++*waits_;
    if (fails_) throw PeerError("the peer is gone");
  }
  int* waits_;
  bool fails_;
};

TEST(Transfer, waits_once_by_call_by_destruction_or_by_replacement) {
  int waits = 0;
  {
    Transfer asked(std::make_unique<Counted>(&waits));
    EXPECT_TRUE(asked.is_pending());
    asked.wait();
    asked.wait();
    EXPECT_FALSE(asked.is_pending());
  }
  EXPECT_EQ(waits, 1);
  {
    Transfer destroyed(std::make_unique<Counted>(&waits));
    const Transfer moved = std::move(destroyed);
  }
  EXPECT_EQ(waits, 2);
  Transfer replaced(std::make_unique<Counted>(&waits));
  replaced = Transfer();
  EXPECT_EQ(waits, 3);
}

TEST(Transfer, is_given_up_when_an_exception_passes) {
  int waits = 0;
  try {
    const Transfer transfer(std::make_unique<Counted>(&waits));
    throw DataError("no more tokens");
  } catch (const DataError&) {
  }
  EXPECT_EQ(waits, 0);
}

TEST(Transfer, that_fails_throws_from_wait_and_never_from_its_destructor) {
  int waits = 0;
  Transfer asked(std::make_unique<Counted>(&waits, true));
  EXPECT_THROW(asked.wait(), PeerError);
  EXPECT_NO_THROW({ const Transfer destroyed(std::make_unique<Counted>(&waits, true)); });
  EXPECT_EQ(waits, 2);
}

}  // namespace
}  // namespace trireme
