#include "model/ops/gemm_choices.h"

#include <nlohmann/json.hpp>

#include "model/base/error.h"
#include "model/ops/cpu/gemm_engine.h"
#include "model/ops/cuda/algorithm_table.h"

namespace trireme::ops {
namespace {

using nlohmann::json;

struct Tables {
  cpu::GemmChoices of_cpu;
  cuda::AlgorithmTable of_cuda;
};

Tables parsed(const std::string& text) {
  json of_cpu = json::object(), of_cuda = json::object();
  try {
    const json document = json::parse(text);
    for (const auto& [machine, shapes] : document.items()) {
      (machine.starts_with(cuda::kMachinePrefix) ? of_cuda : of_cpu)[machine] = shapes;
    }
  } catch (const json::exception& error) {
    throw ConfigError(say("matrix product choices: ", error.what()));
  }
  return {cpu::GemmChoices::parse(of_cpu.dump()), cuda::AlgorithmTable::parse(of_cuda.dump())};
}

std::string text_of(const Tables& tables) {
  if (tables.of_cuda.empty()) return tables.of_cpu.json();
  json all = json::parse(tables.of_cpu.json());
  all.update(json::parse(tables.of_cuda.json()));
  return all.dump(1) + "\n";
}

}  // namespace

std::string gemm_choices() {
  return text_of({cpu::GemmEngine::instance().choices(), cuda::process_algorithms().copy()});
}

void use_gemm_choices(const std::string& text) {
  const Tables given = parsed(text);
  cpu::GemmEngine::instance().use(given.of_cpu);
  cuda::process_algorithms().use(given.of_cuda);
}

std::string merged_gemm_choices(std::span<const std::string> tables) {
  Tables all;
  for (const std::string& text : tables) {
    const Tables one = parsed(text);
    all.of_cpu.merge(one.of_cpu);
    all.of_cuda.merge(one.of_cuda);
  }
  return text_of(all);
}

}  // namespace trireme::ops
