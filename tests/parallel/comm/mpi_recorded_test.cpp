#include <gtest/gtest.h>

#include <array>
#include <span>
#include <string>
#include <vector>

#include "model/tensor/arena.h"
#include "model/tensor/host_tensor.h"
#include "tests/parallel/mpi_world.h"

namespace trireme::tests {
namespace {

using flight::Operation;

class Told final : public CommunicationObserver {
 public:
  void begin(const Event& event) override { lines.push_back(text("begin", event)); }
  void end(const Event& event) override { lines.push_back(text("end", event)); }
  void leave(const Event& event) override { lines.push_back(text("leave", event)); }
  void ran_beside(const Event& event, Transfer::Interval ran, Transfer::Interval waited) override {
    lines.push_back(text("ran", event));
    ran_ns += ran.end - ran.begin;
    waited_ns += waited.end - waited.begin;
  }
  std::vector<std::string> lines;
  std::int64_t ran_ns = 0, waited_ns = 0;

 private:
  static std::string text(const char* what, const Event& event) {
    return say(what, " ", flight::name_of(event.operation), " of ", event.group, ", ", event.bytes,
               " bytes, peer ", event.peer);
  }
};

const RecordedGroup& newest_of(const FlightRecorderPage& page) {
  for (std::size_t i = page.groups.size(); i-- > 0;) {
    if (page.groups[i].name == "all_ranks") return page.groups[i];
  }
  throw Error("the ledger does not know the group");
}

TEST(RecordedCommunicator, enters_every_call_in_the_ledger) {
  const auto group = all_ranks();
  Stream stream;
  std::vector<float> values(static_cast<std::size_t>(group->size()), 1.0F);
  const Tensor whole = host_tensor(std::span(values));
  const Tensor part = whole.slice(group->rank(), 1);
  group->all_reduce(stream, whole, Reduce::kSum);
  group->all_gather(stream, whole, part);
  group->reduce_scatter(stream, part, whole);
  group->broadcast(stream, whole, 0);
  group->barrier(stream);
  const FlightRecorderPage page = world().recorder().page();
  EXPECT_EQ(newest_of(page).begun, 5u);
  EXPECT_EQ(newest_of(page).finished, 5u);
  EXPECT_EQ(newest_of(page).size, static_cast<std::uint32_t>(group->size()));
  EXPECT_EQ(page.operation(), Operation::kNone);
  EXPECT_EQ(values[0], static_cast<float>(group->size() * group->size()));
}

TEST(RecordedCommunicator, records_nothing_of_what_is_planned) {
  const auto group = all_ranks();
  Tally tally;
  Stream planning({}, tally);
  std::array<float, 4> values{};
  group->all_reduce(planning, host_tensor(std::span(values)), Reduce::kSum);
  EXPECT_EQ(newest_of(world().recorder().page()).begun, 0u);
}

TEST(RecordedCommunicator, tells_its_observer_of_messages_until_they_are_there) {
  const auto group = all_ranks();
  if (group->rank() > 1) return;
  Told told;
  world().observe(&told);
  Stream stream;
  std::array<float, 4> values{};
  const Tensor tensor = host_tensor(std::span(values));
  Transfer transfer = group->rank() == 0 ? group->start_send(stream, tensor, 1)
                                         : group->start_receive(stream, tensor, 0);
  EXPECT_EQ(told.lines.size(), 1u);
  transfer.wait();
  world().observe(nullptr);
  const std::string what = group->rank() == 0 ? "send of all_ranks, 16 bytes, peer 1"
                                              : "receive of all_ranks, 16 bytes, peer 0";
  EXPECT_EQ(told.lines, (std::vector<std::string>{"begin " + what, "end " + what}));
}

TEST(RecordedCommunicator, knows_a_collective_that_runs_beside_until_it_is_waited_for) {
  const auto group = all_ranks();
  const auto memory = world().share(1 << 20);
  ASSERT_NE(memory, nullptr);
  Arena arena(memory->data(), memory->bytes());
  Told told;
  world().observe(&told);
  Stream stream;
  const Tensor tensor = arena.take(Shape{1000});
  {
    Transfer first = group->start_all_reduce(stream, tensor, Reduce::kSum);
    Transfer second = group->start_all_reduce(stream, tensor, Reduce::kMax);
    const FlightRecorderPage page = world().recorder().page();
    EXPECT_EQ(newest_of(page).begun, 2u);
    EXPECT_EQ(newest_of(page).finished, 0u);
    EXPECT_EQ(page.operation(), Operation::kNone) << "nobody waits in it";
    second.wait();
    EXPECT_EQ(newest_of(world().recorder().page()).finished, 2u) << "they end in their order";
    first.wait();
    EXPECT_EQ(newest_of(world().recorder().page()).finished, 2u);
  }
  world().observe(nullptr);
  const std::string what = "all_reduce of all_ranks, 4000 bytes, peer -1";
  EXPECT_EQ(told.lines, (std::vector<std::string>{"begin " + what, "leave " + what, "begin " + what,
                                                  "leave " + what, "ran " + what, "ran " + what}));
  EXPECT_GT(told.ran_ns, 0);
  EXPECT_GE(told.waited_ns, 0);
  group->barrier(stream);
}

}  // namespace
}  // namespace trireme::tests
