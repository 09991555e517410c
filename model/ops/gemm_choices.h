#pragma once
#include <span>
#include <string>

// GEMM implementations differ in the last bits, so a run stores its choices: a resumed run with the
// same choices computes the same bits, whatever a new timing would select. Stored as JSON: machine
// -> class of shapes -> implementation. A machine is a processor and its number of threads, or
// "cuda: " and a device, with the versions of the libraries; an implementation is a library on the
// CPU and a cuBLASLt algorithm on CUDA.
namespace trireme::ops {

// All choices of this process, made here or given, on every device.
std::string gemm_choices();
// Uses these choices from now on, without timing. Throws ConfigError describing the problem with
// the text.
void use_gemm_choices(const std::string& json);
// Merges tables; where they differ, the first one wins.
std::string merged_gemm_choices(std::span<const std::string> tables);

}  // namespace trireme::ops
