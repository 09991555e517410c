#include "model/ops/gemm_choices.h"

#include "model/ops/cpu/gemm_engine.h"
#include "model/ops/cuda/algorithm.h"

namespace trireme::ops {
namespace {

bool is_way(const std::string& machine, const std::string& way) {
  return machine.starts_with(cuda::kMachinePrefix) ? cuda::is_algorithm(machine, way)
                                                   : cpu::is_library(machine, way);
}

}  // namespace

std::string gemm_choices() {
  ChoiceTable all = cpu::GemmEngine::instance().choices();
  all.merge(cuda::process_choices().copy());
  return all.json();
}

// The table may cover several machines: each device uses its own entries.
void use_gemm_choices(const std::string& text) {
  const ChoiceTable given = ChoiceTable::parse(text, is_way);
  cpu::GemmEngine::instance().use(given);
  cuda::process_choices().use(given);
}

std::string merged_gemm_choices(std::span<const std::string> tables) {
  ChoiceTable all;
  for (const std::string& text : tables) all.merge(ChoiceTable::parse(text, is_way));
  return all.json();
}

}  // namespace trireme::ops
