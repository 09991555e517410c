#include "parallel/comm/gpu_environment.h"

#include <array>
#include <cstdlib>

#include "model/base/error.h"

namespace trireme::comm {
namespace {

constexpr std::array kVariables{
    // Streams that share one of the 8 default hardware queues wait for each other, also for a
    // kernel of NCCL's that waits for another rank.
    GpuVariable{"CUDA_DEVICE_MAX_CONNECTIONS", "32"},
    // A kernel that is loaded at its first launch waits for those that run.
    GpuVariable{"CUDA_MODULE_LOADING", "EAGER"},
    // Kernels of different communicators start in the order of their calls (NCCL 2.26).
    GpuVariable{"NCCL_LAUNCH_ORDER_IMPLICIT", "1"},
    // Sums in NVLink switches differ from run to run.
    GpuVariable{"NCCL_ALGO", "^NVLS,NVLSTree"},
};

}  // namespace

std::span<const GpuVariable> gpu_variables() {
  return kVariables;
}

void set_gpu_variables(const Variables& variables) {
  for (const GpuVariable& variable : kVariables) {
    if (!variables(variable.name)) ::setenv(variable.name, variable.value, /*overwrite=*/0);
  }
}

std::string gpu_variables_risk(const Variables& variables) {
  const auto queues = variables("CUDA_DEVICE_MAX_CONNECTIONS");
  if (!queues || std::strtol(queues->c_str(), nullptr, 10) > 8) return {};
  return say("CUDA_DEVICE_MAX_CONNECTIONS=", *queues,
             ": streams share hardware queues, and ranks of a pipeline may wait for each other "
             "forever; unset it, or set it to 32");
}

}  // namespace trireme::comm
