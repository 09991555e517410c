// Trains the toy problem by one optimizer and prints what came of it as JSON, for
// test_optimizers.py to judge.
#include <CLI/CLI.hpp>
#include <iostream>
#include <nlohmann/json.hpp>

#include "tests/parallel/data/toy_problem.h"
#include "tests/parallel/optimizer/optimizer_run.h"

int main(int argc, char** argv) {
  using trireme::test::RuleRun;
  using trireme::test::ToyProblem;
  CLI::App app{"optimizer_dump"};
  RuleRun run;
  std::string dtype = "float32";
  trireme::OptimizerOptions& how = run.options;
  app.add_option("--name", how.name)->required();
  app.add_option("--shard", run.shard);
  app.add_option("--tensor", run.tensor);
  app.add_option("--dtype", dtype)->check(CLI::IsMember({"float32", "float64"}));
  app.add_option("--steps", run.steps);
  app.add_option("--lr", run.learning_rate);
  app.add_option("--grad-scale", run.grad_scale);
  app.add_option("--beta1", how.beta1);
  app.add_option("--beta2", how.beta2);
  app.add_option("--eps", how.eps);
  app.add_option("--weight-decay", how.weight_decay);
  app.add_option("--momentum", how.momentum);
  app.add_flag("--nesterov", how.nesterov);
  app.add_option("--trust-coefficient", how.trust_coefficient);
  app.add_option("--adjust-lr", how.adjust_lr);
  app.add_option("--adamw-lr", how.adamw_lr);
  CLI11_PARSE(app, argc, argv);
  how.lr = run.learning_rate;
  run.compute = dtype == "float64" ? trireme::DType::kF64 : trireme::DType::kF32;
  run.declare = ToyProblem::declare;
  run.loss = ToyProblem::loss;
  const RuleRun::Result result = run.run();
  std::cout << nlohmann::json{{"losses", result.losses},
                              {"initial", result.initial},
                              {"weights", result.weights}}
            << "\n";
}
