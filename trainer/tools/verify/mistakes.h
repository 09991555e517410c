#pragma once
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "trainer/tools/verify/mistake.h"
#include "trainer/tools/verify/mistaken_group.h"

namespace trireme::verify {

// A mistake in some collective calls of a process group.
struct CallMistake {
  const char* name;
  std::unique_ptr<Communicator> RankGroups::*group;
  CallFilter calls;
  GroupFault fault;
};
std::span<const CallMistake> call_mistakes();
std::unique_ptr<Mistake> make_mistake(const CallMistake& call);

// Mistakes in engine inputs and in exchanged values, by name.
std::map<std::string, std::function<std::unique_ptr<Mistake>()>> input_mistakes();

// Mistakes in routers and in the exchange of experts' rows, by name.
std::map<std::string, std::function<std::unique_ptr<Mistake>()>> expert_mistakes();

// Mistakes in sequences that context ranks shard, by name.
std::map<std::string, std::function<std::unique_ptr<Mistake>()>> context_mistakes();

// Mistakes in scale factors, sample slices and optimizer updates, by name.
std::map<std::string, std::function<std::unique_ptr<Mistake>()>> update_mistakes();

}  // namespace trireme::verify
