#pragma once
#include <string>
#include <vector>

namespace trireme {

// What this program is and where it runs, for people: of each a line without its end.
std::string program_text();    // "trireme 0.1.0 (Release, GNU 12.2.0)"
std::string processor_text();  // name, usable cores, instruction sets
std::string libraries_text();
// CUDA, cuBLASLt, cuDNN and NCCL, as compiled and as they run where these differ.
std::string cuda_text();
// The CUDA devices, a line each; else one line, "no device: " and the reason.
std::vector<std::string> cuda_device_texts();

}  // namespace trireme
