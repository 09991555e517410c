#pragma once
#include <map>
#include <string>
#include <string_view>

namespace trireme {

// Replaces every {{name}} of `form` in one pass; inserted text is not expanded. Throws Error for a
// name without a value or an unused value.
std::string fill(std::string_view form,
                 const std::map<std::string, std::string, std::less<>>& values);

}  // namespace trireme
