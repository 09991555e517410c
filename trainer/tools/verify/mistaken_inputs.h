#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "trainer/tools/verify/mistake.h"

namespace trireme::verify {

// Mistakes in what an engine is given, or in what it is made to add to what the ranks exchange.
std::map<std::string, std::function<std::unique_ptr<Mistake>()>> input_mistakes();

}  // namespace trireme::verify
