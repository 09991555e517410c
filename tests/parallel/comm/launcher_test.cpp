#include "parallel/comm/launcher.h"

#include <gtest/gtest.h>

#include <map>

#include "model/base/error.h"
#include "parallel/comm/world.h"

namespace trireme {
namespace {

Variables of(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

// The message of the refusal; empty when there is none.
std::string refusal(const Variables& variables, int joined_ranks) {
  try {
    refuse_unjoined_ranks(variables, joined_ranks);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kEnvironment);
    return error.what();
  }
  return "";
}

TEST(Launcher, tells_how_many_ranks_it_started) {
  EXPECT_EQ(launched_ranks(of({})), 1);
  EXPECT_EQ(launched_ranks(of({{"OMPI_COMM_WORLD_SIZE", "4"}})), 4);
  EXPECT_EQ(launched_ranks(of({{"PMIX_RANK", "0"}, {"SLURM_NTASKS", "8"}})), 8);
  EXPECT_EQ(launched_ranks(of({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}})), 2);
  EXPECT_EQ(launched_ranks(of({{"TORCHELASTIC_RUN_ID", "x"}, {"WORLD_SIZE", "8"}})), 8);
  EXPECT_EQ(launched_ranks(of({{"WORLD_SIZE", "8"}})), 1) << "anybody's variable";
  EXPECT_EQ(launched_ranks(of({{"SLURM_STEP_NUM_TASKS", "8"}, {"OMPI_COMM_WORLD_SIZE", "2"}})), 2)
      << "mpirun inside a step";
}

TEST(Launcher, does_not_take_a_job_for_a_step) {
  EXPECT_EQ(launched_ranks(of({{"SLURM_NTASKS", "8"}})), 1) << "a batch script stands alone";
  EXPECT_EQ(launched_ranks(
                of({{"PMIX_RANK", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_STEP_NUM_TASKS", "1"}})),
            1)
      << "a step of one task inside a job of eight";
}

TEST(Launcher, knows_a_rank_even_of_those_that_do_not_find_each_other) {
  EXPECT_EQ(launched_rank(of({})), 0);
  EXPECT_EQ(launched_rank(of({{"OMPI_COMM_WORLD_RANK", "2"}})), 2);
  EXPECT_EQ(launched_rank(of({{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "3"}})), 3);
  EXPECT_EQ(launched_rank(of({{"SLURM_PROCID", "3"}})), 0) << "a batch script stands alone";
}

TEST(Launcher, wires_ranks_when_it_is_mpirun_or_srun_with_pmix) {
  EXPECT_TRUE(has_wired_ranks(of({{"OMPI_COMM_WORLD_SIZE", "1"}})));
  EXPECT_TRUE(has_wired_ranks(of({{"PMIX_RANK", "3"}, {"SLURM_STEP_NUM_TASKS", "4"}})));
  EXPECT_FALSE(has_wired_ranks(of({})));
  EXPECT_FALSE(has_wired_ranks(of({{"PMI_RANK", "3"}, {"SLURM_STEP_NUM_TASKS", "4"}})))
      << "srun --mpi=pmi2, which Open MPI 4.1 of Debian dies of";
}

TEST(Launcher, of_ranks_that_do_not_find_each_other_is_refused_with_the_fix) {
  const Variables plain_srun = of({{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_NTASKS", "4"}});
  EXPECT_NE(refusal(plain_srun, 1).find("4 processes"), std::string::npos);
  EXPECT_NE(refusal(plain_srun, 1).find("srun --mpi=pmix"), std::string::npos);
  const Variables other_mpi = of({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}});
  EXPECT_NE(refusal(other_mpi, 1).find("mpirun of Open MPI"), std::string::npos);
  EXPECT_EQ(refusal(of({}), 1), "");
  EXPECT_EQ(refusal(of({{"SLURM_NTASKS", "4"}}), 1), "");
  EXPECT_EQ(refusal(of({{"OMPI_COMM_WORLD_SIZE", "4"}}), 4), "");
  EXPECT_THROW(World world(plain_srun), EnvironmentError);
}

TEST(Launcher, ranks_of_several_nodes_are_warned_of_slurms_early_fence) {
  EXPECT_NE(launch_risk(of({{"SLURM_STEP_NUM_NODES", "2"}, {"PMIX_RANK", "0"}}))
                .find("SLURM_PMIX_FENCE=ring"),
            std::string::npos);
  EXPECT_EQ(launch_risk(of(
                {{"SLURM_STEP_NUM_NODES", "2"}, {"PMIX_RANK", "0"}, {"SLURM_PMIX_FENCE", "ring"}})),
            "");
  EXPECT_NE(launch_risk(of(
                {{"SLURM_STEP_NUM_NODES", "2"}, {"PMIX_RANK", "0"}, {"SLURM_PMIX_FENCE", "tree"}})),
            "");
  EXPECT_EQ(launch_risk(of({{"SLURM_STEP_NUM_NODES", "1"}, {"PMIX_RANK", "0"}})), "");
  EXPECT_EQ(launch_risk(of({{"SLURM_STEP_NUM_NODES", "2"}})), "");  // mpirun inside a step
}

TEST(World, started_by_hand_is_a_world_of_one_without_mpi) {
  World world(of({}));
  EXPECT_EQ(world.rank(), 0);
  EXPECT_EQ(world.size(), 1);
  EXPECT_EQ(world.local_rank(), 0);
  EXPECT_EQ(world.local_size(), 1);
  ASSERT_EQ(world.hosts().size(), 1u);
  EXPECT_NE(world.hosts().front(), "");
  EXPECT_EQ(world.split("tensor", {0})->size(), 1);
  EXPECT_THROW(world.split("tensor", {1}), Error);
}

}  // namespace
}  // namespace trireme
