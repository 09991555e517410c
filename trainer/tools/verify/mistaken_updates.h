#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "trainer/tools/verify/mistake.h"

namespace trireme::verify {

// Mistakes in scale factors, sample slices and optimizer updates, by name.
std::map<std::string, std::function<std::unique_ptr<Mistake>()>> update_mistakes();

}  // namespace trireme::verify
