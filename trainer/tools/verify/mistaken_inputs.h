#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "trainer/tools/verify/mistake.h"

namespace trireme::verify {

// Mistakes in engine inputs and in exchanged values, by name.
std::map<std::string, std::function<std::unique_ptr<Mistake>()>> input_mistakes();

}  // namespace trireme::verify
