#include "parallel/pipeline/schedule_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "model/base/file.h"
#include "tests/parallel/pipeline/cases.h"

namespace trireme::test {
namespace {

std::string print_schedule(const Schedule& schedule) {
  std::ostringstream out;
  for (const std::vector<Action>& actions : schedule.ranks) {
    for (std::size_t i = 0; i < actions.size(); ++i) out << (i > 0 ? "," : "") << actions[i];
    out << "\n";
  }
  return out.str();
}

class ScheduleFile : public testing::Test {
 protected:
  ScheduleFile() {
    path_ = testing::TempDir() + "trireme_" +
            testing::UnitTest::GetInstance()->current_test_info()->name() + ".csv";
  }
  ~ScheduleFile() override { std::filesystem::remove(path_); }
  std::string refusal(const std::string& text, const PipelineShape& shape) {
    replace_text(path_, text);
    try {
      read_schedule(path_, shape);
    } catch (const ConfigError& error) {
      const std::string what = error.what();
      EXPECT_EQ(what.find(path_), 0u) << what;
      return what.substr(path_.size());
    }
    return "none";
  }
  std::string path_;
};

TEST_F(ScheduleFile, what_is_written_is_read) {
  Random random(8);
  for (int i = 0; i < 20; ++i) {
    const Case c = random_case(random);
    replace_text(path_, print_schedule(c.schedule));
    EXPECT_EQ(make_schedule(path_, c.shape), c.schedule) << c.text();
  }
}

// Two ranks whose stages form a V, with the idle steps and line ends that Python writes.
TEST_F(ScheduleFile, is_read_as_pytorch_writes_it) {
  replace_text(path_,
               "0F0,,,3F0,3I0,3W0,,,0B0\r\n"
               ",1F0,2F0,,,2B0,1I0,1W0\r\n");
  const Schedule schedule = make_schedule(path_, {2, 1, 2});
  EXPECT_EQ(print_schedule(schedule), "0F0,3F0,3I0,3W0,0B0\n1F0,2F0,2B0,1I0,1W0\n");
  EXPECT_EQ(ranks_of_stages(schedule), (std::vector<int>{0, 1, 1, 0}));
}

TEST_F(ScheduleFile, a_cell_that_is_no_action_is_refused_where_it_stands) {
  const std::string end =
      "\" is not an action: write stage, one of F, B, I and W, and micro-batch, such as 2F0";
  for (const std::string cell :
       {"0SEND_F0", "F0", "0F", "0 F0", "-1F0", "0F99999999999", "0f0", "0F0B0"}) {
    EXPECT_EQ(refusal("0F0,0B0\n1F0," + cell + "\n", {2, 1}), ": row 2, cell 2: \"" + cell + end);
  }
}

TEST_F(ScheduleFile, a_schedule_of_another_shape_is_refused_with_both_numbers) {
  const std::string text = print_schedule(one_forward_one_backward({2, 3}));
  EXPECT_EQ(refusal(text, {4, 3}),
            ": this schedule has 2 ranks, the config 4 (parallelism.pipeline)");
  EXPECT_EQ(refusal(text, {2, 3, 2}),
            ": this schedule has 2 stages, the config 4 (parallelism.pipeline x "
            "parallelism.virtual_stages)");
  EXPECT_EQ(refusal(text, {2, 8}),
            ": this schedule has 3 micro-batches, the config 8 (of each data-parallel rank in a "
            "step)");
  EXPECT_EQ(refusal("", {2, 8}),
            ": this schedule has 0 ranks, the config 2 (parallelism.pipeline)");
}

TEST_F(ScheduleFile, a_schedule_that_cannot_run_is_refused) {
  EXPECT_EQ(refusal("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n", {2, 2}),
            ": rank 0, action 1 (0B0) waits forever for 1B0 of rank 1");
}

}  // namespace
}  // namespace trireme::test
