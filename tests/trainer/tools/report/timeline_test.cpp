#include "trainer/tools/report/timeline.h"

#include <gtest/gtest.h>

#include "tests/trainer/tools/report/sample_run.h"
#include "trainer/telemetry/trace_file.h"

namespace trireme {
namespace {

constexpr std::int64_t kMs = 1'000'000;

// Three steps; the later rank works twice as long, and its clock is a minute ahead.
void write_trace(const SampleRun& sample, int rank) {
  TraceFile trace(sample.path() / ("trace-" + std::to_string(rank) + ".json"), rank,
                  "rank " + std::to_string(rank) + " <of two>");
  const std::int64_t clock = rank * 60'000 * kMs;
  for (std::int64_t step = 1; step <= 3; ++step) {
    const std::int64_t start = clock + step * 100 * kMs;
    const std::int64_t work = (rank + 1) * 10 * kMs;
    trace.span("compute", "0F0", start + kMs, start + kMs + work);
    trace.span("idle", "waits", start + kMs + work, start + 40 * kMs);
    trace.span("step", "update", start + 40 * kMs, start + 45 * kMs);
    trace.beside("communication", "send of 0F0", start + 2 * kMs, start + 5 * kMs);
    trace.span("step", "step " + std::to_string(step), start, start + (step == 2 ? 60 : 50) * kMs);
  }
  if (rank == 0) {
    trace.close();
  } else {
    trace.flush();  // as a killed run leaves it
  }
}

TEST(Timeline, is_of_the_median_step_on_each_ranks_own_clock) {
  const SampleRun sample;
  write_trace(sample, 0);
  write_trace(sample, 1);
  sample.write("trace-x.json", "[");
  const auto traced = read_traces(sample.path());
  ASSERT_TRUE(traced);
  EXPECT_EQ(traced->step, 2);
  ASSERT_EQ(traced->ranks.size(), 2U);
  EXPECT_NEAR(traced->length_ms, 45, 1e-3);
  for (int rank = 0; rank < 2; ++rank) {
    const TracedRank& one = traced->ranks[rank];
    EXPECT_NEAR(one.work_ms, 10 * (rank + 1), 1e-3);
    EXPECT_NEAR(one.wait_ms, 39 - 10 * (rank + 1), 1e-3);
    ASSERT_EQ(one.main.size(), 2U);
    EXPECT_NEAR(one.main[0].start, 1, 1e-3);
    ASSERT_EQ(one.overlapped.size(), 1U);
    EXPECT_NEAR(one.overlapped[0].end, 5, 1e-3);
    EXPECT_EQ(one.parts.size(), 1U);
  }
  const auto data = timeline_data(*traced);
  ASSERT_EQ(data.at("lanes").size(), 4U);
  EXPECT_EQ(data.at("lanes")[0].at("spans")[0][3], "forward");
  EXPECT_EQ(data.at("lanes")[1].at("spans")[0][3], "message");
  const std::string html = timeline_html(*traced, 0);
  EXPECT_LT(html.find("rank 1 &lt;of two&gt;"), html.find("rank 0 &lt;of two&gt;"));
  EXPECT_NE(html.find("step 2</h2>"), std::string::npos) << html;
}

TEST(Timeline, damaged_traces_are_no_picture) {
  const SampleRun sample;
  EXPECT_FALSE(read_traces(sample.path()));
  sample.write("trace-0.json",
               "[\n{\"ph\":\"X\",\"name\":7},\n{\"ph\":3},\n{\"ph\":\"e\",\"id\":{}}\n]\n");
  EXPECT_FALSE(read_traces(sample.path()));
  sample.write("trace-0.json", "\xff\xfe");
  EXPECT_FALSE(read_traces(sample.path()));
}

}  // namespace
}  // namespace trireme
