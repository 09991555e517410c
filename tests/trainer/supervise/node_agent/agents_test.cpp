#include "trainer/supervise/node_agent/agents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <list>

#include "tests/trainer/telemetry/scratch_folder.h"
#include "trainer/supervise/node_agent/agent.h"
#include "trainer/supervise/node_agent/own_processes.h"
#include "trainer/telemetry/clock.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Agents are this program started again (main below), as processes of their own.
class AgentsOnThisMachine : public testing::Test {
 protected:
  std::unique_ptr<Agents> agents_of(const std::vector<std::string>& nodes) {
    auto agents = std::make_unique<Agents>(
        folder_.path(), nodes,
        [](const std::string& /*node*/) { return std::vector<std::string>{}; },
        Agents::Options{.node_timeout_s = 2, .restart_s = 0.5});
    agents->wait_for_all(20);
    return agents;
  }
  // A process that a supervisor would take for one of its ranks.
  StartedProcess rank() {
    return StartedProcess({"sleep", "600"}, {.variables = {mark_}, .output = folder_ / "rank.log"});
  }
  static bool until(Agents& agents, double seconds, const std::function<bool()>& holds) {
    const double end = seconds_now() + seconds;
    while (!holds()) {
      if (seconds_now() > end) return false;
      agents.poll(0.05);
    }
    return true;
  }
  static bool until(double seconds, const std::function<bool()>& holds) {
    const double end = seconds_now() + seconds;
    while (!holds()) {
      if (seconds_now() > end) return false;
      ::usleep(20'000);
    }
    return true;
  }
  // Also one that nobody has waited for yet.
  static bool is_gone(std::int64_t process) {
    std::ifstream file("/proc/" + std::to_string(process) + "/cmdline");
    return file.peek() == std::ifstream::traits_type::eof();
  }
  ~AgentsOnThisMachine() override { end_processes(mark_); }

  ScratchFolder folder_;
  std::string mark_ = RunToken::make(folder_.path()).mark();
};

TEST_F(AgentsOnThisMachine, come_beat_and_go) {
  std::vector<std::int64_t> processes;
  {
    const auto agents = agents_of({"a", "b"});
    EXPECT_THAT(agents->healthy(), ElementsAre("a", "b"));
    ASSERT_EQ(agents->take_changes().size(), 2u);
    const auto has_beaten = [](const NodeReport& node) { return node.shm_free > 0; };
    EXPECT_TRUE(until(*agents, 5, [&] {
      return has_beaten(agents->nodes()[0]) && has_beaten(agents->nodes()[1]);
    }));
    for (const NodeReport& node : agents->nodes()) processes.push_back(node.agent);
  }
  for (const std::int64_t process : processes) EXPECT_TRUE(is_gone(process));
}

TEST_F(AgentsOnThisMachine, whose_first_start_hangs_are_started_again) {
  int starts = 0;
  Agents agents(folder_.path(), {"a"},
                [&starts](const std::string& /*node*/) {
                  const bool hangs = ++starts == 1;
                  return hangs ? std::vector<std::string>{"sh", "-c", "sleep 600"}
                               : std::vector<std::string>{};
                },
                {.node_timeout_s = 2, .restart_s = 0.1, .first_try_s = 0.3});
  agents.wait_for_all(20);
  EXPECT_THAT(agents.healthy(), ElementsAre("a"));
  EXPECT_EQ(starts, 2);
  const auto changes = agents.take_changes();
  ASSERT_EQ(changes.size(), 1u) << "it was taken for lost in between";
  EXPECT_EQ(changes[0].health, NodeHealth::kHealthy);
}

TEST_F(AgentsOnThisMachine, know_the_ranks_and_end_them) {
  const auto agents = agents_of({"a"});
  StartedProcess one = rank(), other = rank();
  EXPECT_TRUE(until(*agents, 5, [&] { return agents->nodes()[0].pids.size() == 2; }));
  agents->end_everywhere(5);
  EXPECT_TRUE(until(1, [&] { return one.ended() && other.ended(); }));
  EXPECT_EQ(one.ended(), 128 + SIGKILL);
  EXPECT_THAT(agents->healthy(), ElementsAre("a"));
  EXPECT_TRUE(until(*agents, 5, [&] { return agents->nodes()[0].pids.empty(); }));
}

TEST_F(AgentsOnThisMachine, that_are_killed_are_replaced_and_their_ranks_go_on) {
  const auto agents = agents_of({"a"});
  agents->take_changes();
  StartedProcess one = rank();
  const std::int64_t first = agents->nodes()[0].agent;
  ::kill(static_cast<pid_t>(first), SIGKILL);
  EXPECT_TRUE(until(*agents, 5, [&] {
    return agents->nodes()[0].agent != first && !agents->nodes()[0].pids.empty();
  }));
  EXPECT_THAT(agents->take_changes(), IsEmpty());
  EXPECT_EQ(one.ended(), std::nullopt);
}

TEST_F(AgentsOnThisMachine, that_stop_are_a_lost_node_and_new_ones_bring_it_back_without_ranks) {
  const auto agents = agents_of({"a", "b"});
  agents->take_changes();
  ::kill(static_cast<pid_t>(agents->nodes()[1].agent), SIGSTOP);
  const double stopped = seconds_now();
  EXPECT_TRUE(until(*agents, 10, [&] { return agents->healthy().size() == 1; }));
  EXPECT_NEAR(seconds_now() - stopped, 2, 1);
  const auto lost = agents->take_changes();
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].node, "b");
  EXPECT_EQ(lost[0].health, NodeHealth::kLost);
  EXPECT_THAT(lost[0].why, testing::StartsWith("no heartbeat for "));
  StartedProcess one = rank();
  EXPECT_TRUE(until(*agents, 10, [&] { return agents->healthy().size() == 2; }));
  EXPECT_TRUE(until(1, [&] { return one.ended().has_value(); }));
}

TEST_F(AgentsOnThisMachine, whose_node_is_lost_do_not_hold_up_the_end_of_the_others) {
  const auto agents = agents_of({"a", "b"});
  StartedProcess one = rank();
  EXPECT_TRUE(until(*agents, 5, [&] { return !agents->nodes()[0].pids.empty(); }));
  ::kill(static_cast<pid_t>(agents->nodes()[1].agent), SIGSTOP);
  const double asked = seconds_now();
  agents->end_everywhere(10);
  EXPECT_LT(seconds_now() - asked, 4);
  EXPECT_TRUE(until(1, [&] { return one.ended().has_value(); }));
  EXPECT_THAT(agents->healthy(), ElementsAre("a"));
}

TEST_F(AgentsOnThisMachine, tell_of_signals_and_go_on) {
  const auto agents = agents_of({"a"});
  EXPECT_EQ(agents->take_signal(), 0);
  ::kill(static_cast<pid_t>(agents->nodes()[0].agent), SIGTERM);
  int told = 0;
  EXPECT_TRUE(until(*agents, 5, [&] { return (told = agents->take_signal()) != 0; }));
  EXPECT_EQ(told, SIGTERM);
  EXPECT_FALSE(until(*agents, 1, [&] { return agents->healthy().empty(); }));
}

TEST_F(AgentsOnThisMachine, are_served_through_garbage_and_a_flood) {
  const auto agents = agents_of({"a"});
  agents->take_changes();
  std::list<Socket> strangers;
  const std::string garbage(100'000, '\xff');
  const std::string greeting = "trireme1" + std::string(16, 'x') + std::string(4, '\0') + garbage;
  for (int i = 0; i < 600; ++i) {
    Socket& socket = strangers.emplace_back(Socket::connect(loopback_address(), agents->port()));
    if (i % 3 != 0) agents->poll(0);
    const std::string& bytes = i % 2 == 0 ? garbage : greeting;
    if (i % 5 != 0) ::send(socket.descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  const std::int64_t first = agents->nodes()[0].agent;
  ::kill(static_cast<pid_t>(first), SIGKILL);
  EXPECT_TRUE(until(*agents, 5, [&] { return agents->nodes()[0].agent != first; }));
  EXPECT_FALSE(until(*agents, 3, [&] { return agents->healthy().empty(); }));
  EXPECT_THAT(agents->take_changes(), IsEmpty());
}

TEST_F(AgentsOnThisMachine, that_lost_their_supervisor_end_the_ranks_and_themselves) {
  int told[2];
  ASSERT_EQ(::pipe(told), 0);
  const pid_t supervisor = ::fork();
  if (supervisor == 0) {
    const auto agents = agents_of({"a"});
    const std::int64_t agent = agents->nodes()[0].agent;
    if (::write(told[1], &agent, sizeof agent) < 0) ::_exit(1);
    for (;;) agents->poll(0.1);
  }
  std::int64_t agent = 0;
  ASSERT_EQ(::read(told[0], &agent, sizeof agent), static_cast<ssize_t>(sizeof agent));
  StartedProcess one = rank();
  EXPECT_FALSE(until(1, [&] { return one.ended().has_value(); }));
  ::kill(supervisor, SIGKILL);
  ::waitpid(supervisor, nullptr, 0);
  EXPECT_TRUE(until(10, [&] { return one.ended() && is_gone(agent); }));
}

TEST_F(AgentsOnThisMachine, that_cannot_be_started_are_a_lost_node_that_says_why) {
  Agents agents(folder_.path(), {"a"},
                [](const std::string& /*node*/) { return std::vector<std::string>{"false"}; },
                {.restart_s = 0.2});
  agents.wait_for_all(10);
  const auto changes = agents.take_changes();
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].health, NodeHealth::kLost);
  EXPECT_THAT(changes[0].why, testing::HasSubstr("exit code 1"));
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "agent") {
    const std::vector<std::string> words(argv, argv + argc);  // --run-dir D --supervisor P --node N
    return static_cast<int>(trireme::Agent({.run_dir = words.at(3),
                                            .node = words.at(7),
                                            .supervisor = trireme::parse_host_port(words.at(5)),
                                            .beat_s = 0.2,
                                            .patience_s = 1.5})
                                .run());
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
