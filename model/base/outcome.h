#pragma once
#include <functional>
#include <string>

namespace trireme {

// The result of `work`, or the error it throws, as text for another process.
std::string outcome_of(const std::function<std::string()>& work);

// The result in such a text. Throws the error again: its type, its exit code, and `who` before its
// message.
std::string result_of(const std::string& outcome, const std::string& who = "");

}  // namespace trireme
