#pragma once
#include <memory>
#include <vector>

#include "trainer/tools/verify/mistake.h"
#include "trainer/tools/verify/mistaken_group.h"

namespace trireme::verify {

// A mistake that a group of ranks makes in some of its calls.
struct CallMistake {
  const char* name;
  std::unique_ptr<Communicator> RankGroups::*group;
  Calls calls;
  Deed deed;
};
const std::vector<CallMistake>& call_mistakes();
std::unique_ptr<Mistake> make_mistake(const CallMistake& call);

}  // namespace trireme::verify
