// throwing_rank HOW: rank 1 fails in the way HOW names while the others wait for it.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "model/tensor/arena.h"
#include "parallel/comm/world.h"

namespace trireme {
namespace {

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return value;
}

void work(World& world, const std::string& how) {
  Stream stream;
  const auto group = world.split("pair", {0, 1});
  if (how == "inside" || how == "outside") {
    if (world.rank() == 1) throw DataError("no more tokens");
    return group->barrier(stream);
  }
  const auto memory = world.share(1 << 20);
  require(memory != nullptr, "the ranks share no memory");
  Arena arena(memory->data(), memory->bytes());
  const Tensor tensor = arena.take(Shape{1000});
  if (how == "killed") {
    if (world.rank() == 1) std::raise(SIGKILL);
    return group->all_reduce(stream, tensor, Reduce::kSum);
  }
  // Of the two that rank 1 has started the second never ends.
  const Transfer first = group->start_all_reduce(stream, tensor, Reduce::kSum);
  if (world.rank() == 0) return group->barrier(stream);
  const Transfer second = group->start_all_reduce(stream, tensor, Reduce::kSum);
  throw DataError("no more tokens");
}

// The world sees the error and ends the others.
int report_inside(const std::string& how) {
  World world(variable);
  try {
    work(world, how);
  } catch (const Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    world.abort(error.code());
  }
  return 0;
}

// The error leaves the world.
int report_outside(const std::string& how) {
  try {
    World world(variable);
    work(world, how);
  } catch (const Error& error) {
    return static_cast<int>(error.code());
  }
  return 0;
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  const std::string how = argc > 1 ? argv[1] : "";
  return how == "inside" ? trireme::report_inside(how) : trireme::report_outside(how);
}
