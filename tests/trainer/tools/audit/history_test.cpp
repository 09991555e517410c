#include <gtest/gtest.h>

#include "model/base/error.h"
#include "model/base/file.h"
#include "tests/trainer/telemetry/scratch_folder.h"
#include "tests/trainer/tools/audit/made_up_run.h"

namespace trireme {
namespace {

std::string all_of(const Findings& findings) {
  std::string text;
  for (const Finding& finding : findings) text += text_of(finding) + "\n";
  return text;
}

class Histories : public testing::TestWithParam<bool> {};

TEST_P(Histories, with_restarts_skips_and_rollbacks_are_clean) {
  const ScratchFolder folder;
  const data::SampleSource source = MadeUpRun::source(folder.path(), /*stages=*/GetParam());
  Lineage::RepeatedSteps again;
  std::int64_t incarnations = 0, rollbacks = 0, moved = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const auto run = folder / std::to_string(seed);
    MadeUpRun(run, source, seed)
        .run(30 + seed % 17, {.kill = 0.12, .skip = 0.04, .rollback = 0.03});
    EXPECT_EQ(all_of(audit_with_data(run, source)), "") << "seed " << seed;
    const Audit audit = audit_run(run, /*data=*/false);
    EXPECT_EQ(audit.lineage.steps.size(), 30 + seed % 17);
    EXPECT_EQ(audit.agreement.metrics, static_cast<std::int64_t>(30 + seed % 17));
    EXPECT_LE(audit.lineage.repeated.promised, audit.lineage.repeated.bits);
    again.steps += audit.lineage.repeated.steps;
    again.promised += audit.lineage.repeated.promised;
    again.samples += audit.lineage.repeated.samples;
    again.bits += audit.lineage.repeated.bits;
    incarnations += audit.lineage.incarnations;
    rollbacks += audit.lineage.rollbacks;
    moved += audit.lineage.repeated.steps - audit.lineage.repeated.samples;
  }
  // They must have had something to prove.
  EXPECT_GT(incarnations, 300);
  EXPECT_GT(rollbacks, 50);
  EXPECT_GT(again.steps, 500);
  EXPECT_GT(moved, 50);
  EXPECT_GT(again.promised, 200);
  EXPECT_GT(again.samples, again.bits);
}

INSTANTIATE_TEST_SUITE_P(of, Histories, testing::Bool(), [](const auto& with_stages) {
  return with_stages.param ? "stages" : "one_mixture";
});

TEST(Audit, finds_a_mixture_that_changes_elsewhere) {
  const ScratchFolder folder;
  const data::SampleSource source = MadeUpRun::source(folder.path(), /*stages=*/true);
  MadeUpRun(folder / "run", source, 1).run(20, {});
  EXPECT_EQ(all_of(audit_with_data(folder / "run", source)), "");
  // There the same steps have other samples.
  const data::SampleSource other = MadeUpRun::source(folder.path());
  EXPECT_NE(all_of(audit_with_data(folder / "run", other)), "");
}

TEST(Audit, says_what_it_has_proved) {
  const ScratchFolder folder;
  const data::SampleSource source = MadeUpRun::source(folder.path());
  MadeUpRun(folder / "run", source, 1).run(10, {});
  EXPECT_EQ(text_of(audit_run(folder / "run", /*data=*/false)),
            "incarnations  1, 0 rollbacks\n"
            "steps         1 to 10, 10 lines\n"
            "samples       40 trained on, 0 excluded\n"
            "repeated      0 steps, 0 with the same samples, 0 bit-identical (0 guaranteed)\n"
            "metrics.jsonl 10 steps agree\n"
            "checkpoints   2 agree\n"
            "clean\n");
}

TEST(Audit, a_folder_without_a_ledger_or_none_at_all_is_told_apart) {
  const ScratchFolder folder;
  EXPECT_THROW(audit_run(folder.path(), /*data=*/false), DataError);
  EXPECT_THROW(audit_run(folder / "nowhere", /*data=*/false), ConfigError);
}

TEST(Audit, a_run_killed_before_its_first_step_is_clean) {
  const ScratchFolder folder;
  const data::SampleSource source = MadeUpRun::source(folder.path());
  MadeUpRun(folder / "run", source, 1).run(0, {});
  EXPECT_EQ(all_of(audit_with_data(folder / "run", source)), "");
}

}  // namespace
}  // namespace trireme
