#pragma once
#include <span>
#include <string>

// Ways to multiply matrices differ in the last bits, so a run keeps what its products have
// chosen: a resumed run that is given the same choices computes the same bits, whatever a new
// measurement would say. Kept as JSON: machine -> class of shapes -> way. A machine is a
// processor and its number of threads, or "cuda: " and a device, with the libraries' versions;
// a way is a library on the CPU and an algorithm of cuBLASLt's on CUDA.
namespace trireme::ops {

// What this process has chosen so far on every device, and what it was given.
std::string gemm_choices();
// From now on these, before any measurement. Throws ConfigError saying what is wrong with the
// text.
void use_gemm_choices(const std::string& json);
// Of several tables one; where they differ, the first one's choice.
std::string merged_gemm_choices(std::span<const std::string> tables);

}  // namespace trireme::ops
