#include "trainer/tools/verify/mistake.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <map>

#include "model/base/error.h"
#include "trainer/tools/verify/mistakes.h"

namespace trireme::verify {
namespace {

using Make = std::function<std::unique_ptr<Mistake>()>;

std::map<std::string, Make> all() {
  std::map<std::string, Make> makes;
  for (const CallMistake& call : call_mistakes()) {
    makes.emplace(call.name, [call] { return make_mistake(call); });
  }
  for (const auto& [name, make] : input_mistakes()) makes.emplace(name, make);
  for (const auto& [name, make] : expert_mistakes()) makes.emplace(name, make);
  for (const auto& [name, make] : context_mistakes()) makes.emplace(name, make);
  for (const auto& [name, make] : update_mistakes()) makes.emplace(name, make);
  return makes;
}

}  // namespace

std::vector<std::string> Mistake::names() {
  std::vector<std::string> names;
  for (const auto& [name, make] : all()) names.push_back(name);
  return names;
}

std::unique_ptr<Mistake> Mistake::from(const Variables& variables) {
  const auto name = variables(kVariable);
  if (!name) return nullptr;
  const auto makes = all();
  const auto found = makes.find(*name);
  if (found != makes.end()) return found->second();
  throw ConfigError(fmt::format("{}=\"{}\": unknown mistake; expected one of {}", kVariable, *name,
                                fmt::join(names(), ", ")));
}

}  // namespace trireme::verify
