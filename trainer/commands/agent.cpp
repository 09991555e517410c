#include "trainer/commands/agent.h"

#include <memory>
#include <string>

#include "model/base/host_name.h"
#include "trainer/supervise/node_agent/agent.h"

namespace trireme {
namespace {

struct AgentArguments {
  std::string run_dir, supervisor, node;
};

ExitCode be_agent(const AgentArguments& options) {
  return Agent({.run_dir = options.run_dir,
                .node = options.node.empty() ? own_host_name() : options.node,
                .supervisor = parse_place(options.supervisor)})
      .run();
}

}  // namespace

Command make_agent(CLI::App& program) {
  auto options = std::make_shared<AgentArguments>();
  CLI::App* app = program.add_subcommand(
      "agent", "Watch over the ranks of this node for a supervisor (trireme launch starts it)");
  app->group("");
  app->add_option("--run-dir", options->run_dir, "the run's folder, which holds the token")
      ->required()
      ->type_name("DIR");
  app->add_option("--supervisor", options->supervisor, "where the supervisor listens")
      ->required()
      ->type_name("HOST:PORT");
  app->add_option("--node", options->node, "this node's name (default: the host's)")
      ->type_name("NAME");
  return {app, [options] { return be_agent(*options); }};
}

}  // namespace trireme
