#pragma once
#include <string_view>

namespace trireme {

// scripts/slurm/train.sbatch, built into the program.
extern const std::string_view kSlurmTemplate;

}  // namespace trireme
