#pragma once
#include <span>
#include <string>

#include "parallel/comm/launcher.h"

// Environment variables by which CUDA and NCCL do not hang in a job of several GPUs. Both libraries
// read them once, and MPI may call CUDA: they are set before MPI starts.
namespace trireme::comm {

struct GpuVariable {
  const char* name;
  const char* value;
};
std::span<const GpuVariable> gpu_variables();

// Sets those that the user has not set, for this process and its children.
void set_gpu_variables(const Variables& variables);

// Which of the user's values may hang a run, with the fix; empty if none.
std::string gpu_variables_risk(const Variables& variables);

}  // namespace trireme::comm
