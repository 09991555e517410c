#pragma once
#include <sys/types.h>

#include <functional>
#include <string>

namespace trireme::checkpoint {

// Runs `work` in a forked child, which sees the current memory copy-on-write, and returns its
// result. The child exits by _exit, without destructors, exit handlers or threads of the parent, so
// it must not use threads or BLAS. It closes all inherited descriptors, ignores the signals that
// the parent handles (SIGINT, SIGTERM) and dies with its parent. Exceptions of `work` are rethrown
// as the same type; a crash of the child throws EnvironmentError. `what` describes the work in
// messages: "writing FILE".
std::string in_child(const std::string& what, const std::function<std::string()>& work);

// Sets up a process forked by `parent` as described above. Must be the first call in the child;
// `descriptor` stays open.
void become_child(int descriptor, pid_t parent);

}  // namespace trireme::checkpoint
