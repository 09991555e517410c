// Writes the losses of routers with random logits, and their gradients, for test_megatron.py to
// judge; README.md beside this file defines the folder.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string>

#include "model/base/error.h"
#include "model/ops/elementwise.h"
#include "model/ops/routing.h"
#include "model/params/init.h"
#include "tests/parity/tensor_file.h"

namespace trireme::parity {
namespace {

struct RouterCase {
  const char* score = "softmax";
  std::int64_t tokens = 0, experts = 0, top_k = 0;
};
constexpr RouterCase kCases[] = {{"softmax", 48, 8, 2},  {"softmax", 33, 64, 6},
                                 {"softmax", 7, 130, 1}, {"sigmoid", 48, 8, 2},
                                 {"sigmoid", 33, 64, 6}, {"sigmoid", 7, 130, 1}};

// Losses are means over tokens, gradients those of these means.
void add_case(TensorFile& file, Stream& stream, const RouterCase& of, DType dtype) {
  Arena arena(std::size_t{8} << 20);
  Arena scratch(std::size_t{1} << 20);
  const ops::Routing how{.score = std::string(of.score) == "sigmoid" ? ops::RouterScore::kSigmoid
                                                                     : ops::RouterScore::kSoftmax,
                         .top_k = of.top_k};
  const std::string name = say(of.score, "/", of.tokens, "/", of.experts, "/", of.top_k, "/");
  const auto take = [&](Shape shape, DType type) { return arena.take(shape, type); };
  const Tensor logits = take({of.tokens, of.experts}, dtype);
  const ElementInit normal(Init::kNormal, 2, 1, name);
  normal.fill(stream, logits, {});
  const ops::Routes routes{.scores = take({of.tokens, of.experts}, dtype),
                           .weights = take({of.tokens, of.top_k}, dtype),
                           .experts = take({of.tokens, of.top_k}, DType::kI32)};
  ops::route(stream, routes, logits, how);
  const Tensor counts = take({1, of.experts}, DType::kF32);
  ops::count_choices(stream, counts, routes.experts);
  const Tensor losses = take({ops::kRouterSums}, DType::kF64);
  ops::router_losses(stream, scratch, losses, counts, routes.scores, logits, how);
  const double mean = 1 / static_cast<double>(of.tokens);
  const Tensor unweighted = take({of.tokens, of.top_k}, dtype);
  ops::zero(stream, unweighted);
  const auto gradient = [&](const ops::RouterLosses& weights) {
    const Tensor dlogits = take({of.tokens, of.experts}, dtype);
    ops::route_backward(stream, dlogits, unweighted, logits, routes, how, weights);
    return dlogits;
  };
  for (double& loss : std::span(losses.as<double>(), ops::kRouterSums)) loss *= mean;
  file.add(name + "logits", logits);
  file.add(name + "balance", losses.slice(0, 1));
  file.add(name + "z_loss", losses.slice(1, 1));
  file.add(name + "balance_gradient", gradient({.counts = counts, .balance = mean}));
  file.add(name + "z_loss_gradient", gradient({.z_loss = mean}));
}

void dump_routers(DType dtype, const std::filesystem::path& folder) {
  Stream stream;
  TensorFile file;
  for (const RouterCase& of : kCases) add_case(file, stream, of, dtype);
  file.write(folder);
}

}  // namespace
}  // namespace trireme::parity

int main(int argc, char** argv) {
  CLI::App app("Dumps the losses of routers with random logits");
  std::string dtype = "float32";
  std::filesystem::path output;
  app.add_option("--dtype", dtype)->check(CLI::IsMember({"float32", "float64"}));
  app.add_option("--output", output)->required();
  CLI11_PARSE(app, argc, argv);
  try {
    trireme::parity::dump_routers(dtype == "float64" ? trireme::DType::kF64 : trireme::DType::kF32,
                                  output);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "router_dump: %s\n", error.what());
    return 1;
  }
  return 0;
}
