#pragma once
#include <csignal>
#include <cstddef>
#include <string>
#include <vector>

namespace trireme {

// While one lives, SIGTERM, SIGUSR1 and the first SIGINT only ask the run to stop
// (Slurm sends them before a time limit or a preemption); a second SIGINT ends the
// process at once. One in a process, made by the thread that computes.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // The signal that asked, or 0.
  int asked() const;

 private:
  // Of the handler, and what there was before. Kernels that oneDNN generates use the stack pointer
  // as any other register: a signal's frame on their stack would overwrite whatever it points to.
  std::vector<std::byte> stack_;
  stack_t stack_before_{};
};

// "SIGTERM" and the like.
std::string signal_name(int signal);

}  // namespace trireme
