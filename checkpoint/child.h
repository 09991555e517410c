#pragma once
#include <sys/types.h>

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

// The first thing a forked child of `parent` does that is to live as the above says;
// `descriptor` is the one it keeps.
void become_child(int descriptor, pid_t parent);

// What `work` returns or throws as a text that another process may read, and back: the
// result, or the same kind of error.
std::string outcome_of(const std::function<std::string()>& work);
std::string result_of(const std::string& outcome);

}  // namespace trireme::checkpoint
