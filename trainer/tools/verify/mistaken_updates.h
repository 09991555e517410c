#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "trainer/tools/verify/mistake.h"

namespace trireme::verify {

// Those in numbers that a layout divides or multiplies by, in which samples it reads and in what
// it makes of right gradients, by name.
std::map<std::string, std::function<std::unique_ptr<Mistake>()>> update_mistakes();

}  // namespace trireme::verify
