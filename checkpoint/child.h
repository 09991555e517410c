#pragma once
#include <functional>
#include <string>

namespace trireme::checkpoint {

// Runs `work` in a forked child, which sees our memory as it is now, copy on write,
// and returns the text it returned. The child leaves by _exit: no destructor, exit
// handler or thread of ours runs there, so it must not use threads or BLAS. It closes
// every descriptor it inherited, outlives none of its parent's signals by accident
// (Ctrl-C and SIGTERM are the parent's to handle) and dies with its parent. What
// `work` throws is thrown here again as the same kind of error; a child that crashes
// is an EnvironmentError that says so. `what` names the work: "writing FILE".
std::string in_child(const std::string& what, const std::function<std::string()>& work);

}  // namespace trireme::checkpoint
