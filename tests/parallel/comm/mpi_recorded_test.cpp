#include <gtest/gtest.h>

#include <array>
#include <span>
#include <string>
#include <vector>

#include "model/tensor/host_tensor.h"
#include "tests/parallel/mpi_world.h"

namespace trireme::tests {
namespace {

using ledger::Operation;

class Told final : public CommunicationObserver {
 public:
  void begin(const Event& event) override { lines.push_back(text("begin", event)); }
  void end(const Event& event) override { lines.push_back(text("end", event)); }
  std::vector<std::string> lines;

 private:
  static std::string text(const char* what, const Event& event) {
    return say(what, " ", ledger::name_of(event.operation), " of ", event.group, ", ", event.bytes,
               " bytes, peer ", event.peer);
  }
};

const LedgerGroup& newest_of(const LedgerPage& page) {
  for (std::size_t i = page.groups.size(); i-- > 0;) {
    if (page.groups[i].name == "everybody") return page.groups[i];
  }
  throw Error("the ledger does not know the group");
}

TEST(RecordedCommunicator, enters_every_call_in_the_ledger) {
  const auto group = everybody();
  Stream stream;
  std::vector<float> values(static_cast<std::size_t>(group->size()), 1.0F);
  const Tensor whole = host_tensor(std::span(values));
  const Tensor part = whole.slice(group->rank(), 1);
  group->all_reduce(stream, whole, Reduce::kSum);
  group->all_gather(stream, whole, part);
  group->reduce_scatter(stream, part, whole);
  group->broadcast(stream, whole, 0);
  group->barrier(stream);
  const LedgerPage page = world().ledger().page();
  EXPECT_EQ(newest_of(page).begun, 5u);
  EXPECT_EQ(newest_of(page).finished, 5u);
  EXPECT_EQ(newest_of(page).size, static_cast<std::uint32_t>(group->size()));
  EXPECT_EQ(page.operation(), Operation::kNone);
  EXPECT_EQ(values[0], static_cast<float>(group->size() * group->size()));
}

TEST(RecordedCommunicator, records_nothing_of_what_is_planned) {
  const auto group = everybody();
  Tally tally;
  Stream planning({}, tally);
  std::array<float, 4> values{};
  group->all_reduce(planning, host_tensor(std::span(values)), Reduce::kSum);
  EXPECT_EQ(newest_of(world().ledger().page()).begun, 0u);
}

TEST(RecordedCommunicator, tells_its_observer_of_messages_until_they_are_there) {
  const auto group = everybody();
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
  const std::string what = group->rank() == 0 ? "send of everybody, 16 bytes, peer 1"
                                              : "receive of everybody, 16 bytes, peer 0";
  EXPECT_EQ(told.lines, (std::vector<std::string>{"begin " + what, "end " + what}));
}

}  // namespace
}  // namespace trireme::tests
