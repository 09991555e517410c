// throwing_rank HOW: rank 1 fails in the way HOW names while the others wait for it.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "parallel/comm/world.h"

namespace trireme {
namespace {

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return value;
}

void work(World& world) {
  Stream stream;
  const auto group = world.split("pair", {0, 1});
  if (world.rank() == 1) throw DataError("no more tokens");
  group->barrier(stream);
}

// The world sees the error and ends the others.
int report_inside() {
  World world(variable);
  try {
    work(world);
  } catch (const Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    world.abort(error.code());
  }
  return 0;
}

// The error leaves the world.
int report_outside() {
  try {
    World world(variable);
    work(world);
  } catch (const Error& error) {
    return static_cast<int>(error.code());
  }
  return 0;
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  const std::string how = argc > 1 ? argv[1] : "";
  return how == "inside" ? trireme::report_inside() : trireme::report_outside();
}
