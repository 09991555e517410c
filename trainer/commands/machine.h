#pragma once
#include <string>
#include <vector>

namespace trireme {

// Descriptions of the program and the machine, one line each without a newline.
std::string program_text();    // "trireme 0.1.0 (Release, GNU 12.2.0)"
std::string processor_text();  // name, usable cores, instruction sets
std::string libraries_text();
// CUDA, cuBLASLt, cuDNN and NCCL: compiled versions, and runtime versions if they differ.
std::string cuda_text();
// One line per CUDA device, or one line "no device: REASON".
std::vector<std::string> cuda_device_texts();

// "0.1.0"
std::string version();

// Version, build, libraries and devices of this machine, in several lines.
std::string version_text();

}  // namespace trireme
