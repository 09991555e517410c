#include "parallel/comm/gpu_environment.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

namespace trireme {
namespace {

Variables environment_of(const std::map<std::string, std::string>& values) {
  return [values](const char* name) -> std::optional<std::string> {
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  };
}

TEST(GpuVariables, are_set_unless_the_user_has_set_them) {
  for (const auto& variable : comm::gpu_variables()) ::unsetenv(variable.name);
  ::setenv("CUDA_MODULE_LOADING", "LAZY", 1);
  comm::set_gpu_variables(environment_variable);
  EXPECT_EQ(environment_variable("CUDA_MODULE_LOADING"), "LAZY");
  EXPECT_EQ(environment_variable("CUDA_DEVICE_MAX_CONNECTIONS"), "32");
  EXPECT_EQ(environment_variable("NCCL_LAUNCH_ORDER_IMPLICIT"), "1");
  for (const auto& variable : comm::gpu_variables()) ::unsetenv(variable.name);
}

TEST(GpuVariables, of_few_hardware_queues_are_warned_of) {
  EXPECT_EQ(comm::gpu_variables_risk(environment_of({})), "");
  EXPECT_EQ(comm::gpu_variables_risk(environment_of({{"CUDA_DEVICE_MAX_CONNECTIONS", "32"}})), "");
  const std::string text =
      comm::gpu_variables_risk(environment_of({{"CUDA_DEVICE_MAX_CONNECTIONS", "1"}}));
  EXPECT_NE(text.find("CUDA_DEVICE_MAX_CONNECTIONS=1"), std::string::npos) << text;
}

}  // namespace
}  // namespace trireme
