#include "trainer/restart/environment.h"

#include <gtest/gtest.h>

#include <map>

#include "model/base/error.h"

namespace trireme {
namespace {

Variables of(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

TEST(environment, tells_how_many_ranks_were_launched) {
  EXPECT_EQ(launched_ranks(of({})), 1);
  EXPECT_EQ(launched_ranks(of({{"OMPI_COMM_WORLD_SIZE", "4"}})), 4);
  EXPECT_EQ(launched_ranks(of({{"PMIX_RANK", "0"}, {"SLURM_NTASKS", "8"}})), 8);
  EXPECT_EQ(launched_ranks(of({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}})), 2);
}

TEST(environment, does_not_take_a_job_for_a_step) {
  EXPECT_EQ(launched_ranks(of({{"SLURM_NTASKS", "8"}})), 1) << "a batch script stands alone";
  EXPECT_EQ(launched_ranks(
                of({{"PMIX_RANK", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_STEP_NUM_TASKS", "1"}})),
            1)
      << "a step of one task inside a job of eight";
}

TEST(environment, of_many_ranks_is_refused_with_the_documented_code) {
  EXPECT_NO_THROW(refuse_many_ranks(of({{"OMPI_COMM_WORLD_SIZE", "1"}})));
  try {
    refuse_many_ranks(of({{"OMPI_COMM_WORLD_SIZE", "2"}}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kEnvironment);
  }
}

}  // namespace
}  // namespace trireme
