#pragma once
#include <memory>
#include <span>

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

}  // namespace trireme::verify
