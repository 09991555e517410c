#pragma once
#include <memory>

#include "tests/nccl_emulator/clique.h"

namespace trireme::emulator::nccl {

// Connects the communicator for these operations, once, for which all their ranks must come, and
// queues the kernel: at once, or by a thread where the communicator is not blocking.
void launch(const std::shared_ptr<Kernel>& kernel);

}  // namespace trireme::emulator::nccl
