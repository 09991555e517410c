// Writes the losses of routers with random logits, their gradients, and choices limited to groups,
// for test_megatron.py to judge; README.md beside this file defines the folder.
#include <CLI/CLI.hpp>
#include <algorithm>
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

// Choices that are limited to groups of experts, and biases that they update.
struct ChoiceCase {
  std::int64_t tokens = 0, experts = 0, top_k = 0, groups = 0, top_groups = 0;
};
constexpr ChoiceCase kChoices[] = {
    {40, 64, 8, 8, 4}, {33, 32, 4, 4, 2}, {24, 96, 4, 6, 2}, {17, 128, 2, 4, 1}};

void add_choice(TensorFile& file, Stream& stream, const ChoiceCase& of, DType dtype) {
  Arena arena(std::size_t{1} << 20);
  const ops::Routing how{.score = ops::RouterScore::kSigmoid,
                         .top_k = of.top_k,
                         .groups = of.groups,
                         .top_groups = of.top_groups};
  const std::string name = say("choice/", of.tokens, "/", of.experts, "/", of.top_k, "/", of.groups,
                               "/", of.top_groups, "/");
  const auto random = [&](Shape shape, DType type, double scale, const char* what) {
    const Tensor tensor = arena.take(shape, type);
    ElementInit(Init::kNormal, scale, 1, name + what).fill(stream, tensor, {});
    return tensor;
  };
  const Tensor logits = random({of.tokens, of.experts}, dtype, 2, "logits");
  const Tensor bias = random({1, of.experts}, DType::kF32, 0.2, "bias");
  const ops::Routes routes{.scores = arena.take(logits.shape, dtype),
                           .weights = arena.take({of.tokens, of.top_k}, dtype),
                           .experts = arena.take({of.tokens, of.top_k}, DType::kI32)};
  ops::route(stream, routes, logits, how, bias);
  const Tensor experts = arena.take(routes.experts.shape, DType::kF32);
  const std::span chosen(routes.experts.as<std::int32_t>(), routes.experts.count());
  std::copy(chosen.begin(), chosen.end(), experts.as<float>());
  const Tensor counts = arena.take(bias.shape, DType::kF32);
  ops::count_choices(stream, counts, routes.experts);
  file.add(name + "logits", logits);
  file.add(name + "bias", bias);
  file.add(name + "experts", experts);
  file.add(name + "weights", routes.weights);
  file.add(name + "counts", counts);
  const Tensor applied = arena.take({1}, DType::kF32);
  *applied.as<float>() = 1;
  ops::update_router_bias(stream, bias, counts, applied, 1e-3);
  file.add(name + "updated_bias", bias);
}

void dump_routers(DType dtype, const std::filesystem::path& folder) {
  Stream stream;
  TensorFile file;
  for (const RouterCase& of : kCases) add_case(file, stream, of, dtype);
  for (const ChoiceCase& of : kChoices) add_choice(file, stream, of, dtype);
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
