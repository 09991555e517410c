#include "trainer/commands/command.h"

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
                .supervisor = parse_host_port(options.supervisor)})
      .run();
}

}  // namespace

Command make_agent(CLI::App& program) {
  auto options = std::make_shared<AgentArguments>();
  CLI::App* app = program.add_subcommand(
      "agent", "Node agent that supervises the ranks of a node (started by trireme launch)");
  app->group("");
  app->add_option("--run-dir", options->run_dir, "Run folder, which holds the control token")
      ->required()
      ->type_name("DIR");
  app->add_option("--supervisor", options->supervisor, "Address of the supervisor")
      ->required()
      ->type_name("HOST:PORT");
  app->add_option("--node", options->node, "Name of this node (default: the host name)")
      ->type_name("NAME");
  return {app, [options] { return be_agent(*options); }};
}

}  // namespace trireme
