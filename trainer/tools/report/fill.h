#pragma once
#include <map>
#include <string>
#include <string_view>

namespace trireme {

// `form` with every {{name}} replaced, in one pass: what is put in is never looked at
// again. A name without a value, or a value without a place, is a mistake of ours.
std::string fill(std::string_view form,
                 const std::map<std::string, std::string, std::less<>>& values);

}  // namespace trireme
