#pragma once
#include <string>

#include "tests/trainer/tools/plan/published_runs.h"

// Traits of programs with PyTorch's FSDP, for published_traits.cpp.
namespace trireme::published {

double flash_attention_2(const Run& run);
void set_fsdp2(TrainerTraits& traits);
void set_torchao(TrainerTraits& traits, bool gathers_narrow);

void set_automodel_traits(Run& run, TrainerTraits& traits);
void set_olmo_traits(Run& run, const std::string& precision, TrainerTraits& traits);
void set_fms_traits(Run& run, TrainerTraits& traits);
void set_litgpt_traits(Run& run, TrainerTraits& traits);

}  // namespace trireme::published
