#include "trainer/supervise/launch/slurm_allocation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "model/base/error.h"

namespace trireme {
namespace {

using testing::ElementsAre;

Variables variables_of(const std::map<std::string, std::string>& all) {
  return [all](const char* name) -> std::optional<std::string> {
    const auto found = all.find(name);
    if (found == all.end()) return std::nullopt;
    return found->second;
  };
}

TEST(SlurmAllocation, tasks_are_counted_as_slurm_writes_them) {
  EXPECT_THAT(parse_tasks_per_node("4"), ElementsAre(4));
  EXPECT_THAT(parse_tasks_per_node("2(x3),1"), ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(parse_tasks_per_node("1,16(x2)"), ElementsAre(1, 16, 16));
}

TEST(SlurmAllocation, what_slurm_would_not_write_is_refused) {
  for (const char* text :
       {"", ",", "x", "0", "-1", "2(x0)", "2(x", "2(x3)4", "99999999999", "2 "}) {
    EXPECT_THROW(parse_tasks_per_node(text), EnvironmentError) << text;
  }
}

TEST(SlurmAllocation, is_known_by_the_jobs_variables) {
  EXPECT_FALSE(is_in_slurm_allocation(variables_of({})));
  EXPECT_FALSE(is_in_slurm_allocation(variables_of({{"SLURM_JOB_ID", "7"}})));
  EXPECT_TRUE(is_in_slurm_allocation(
      variables_of({{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", "n[1-3]"}})));
}

// It becomes part of a command line.
TEST(SlurmAllocation, a_list_of_nodes_that_is_none_is_refused) {
  for (const char* list : {"", "n1; rm -r x", "$(id)", "n1'", "n1\nn2"}) {
    EXPECT_THROW(read_slurm_allocation(variables_of({{"SLURM_JOB_NODELIST", list}})),
                 EnvironmentError)
        << list;
  }
}

}  // namespace
}  // namespace trireme
