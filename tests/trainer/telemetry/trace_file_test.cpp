#include "trainer/telemetry/trace_file.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "model/base/file.h"
#include "tests/trainer/telemetry/scratch_folder.h"

namespace trireme {
namespace {

using Json = nlohmann::json;

TEST(TraceFile, holds_spans_with_their_times_to_the_nanosecond) {
  const ScratchFolder folder;
  const auto path = folder.path() / "trace-3.json";
  std::int64_t start = 0;
  {
    TraceFile trace(path, 3, "rank 3");
    start = trace.now();
    trace.span("compute", "0F1", start, start + 12'345, {{"micro_batch", 1}});
    trace.beside("communication", "send of 0F1", start + 12'345, start + 20'000);
    trace.close();
  }
  const std::string text = read_text(path);
  const Json events = Json::parse(text);
  Json span;
  std::vector<Json> message;
  for (const Json& event : events) {
    EXPECT_EQ(event.at("pid"), 3);
    if (event.at("ph") == "X") span = event;
    if (event.at("ph") == "b" || event.at("ph") == "e") message.push_back(event);
  }
  EXPECT_EQ(span.at("name"), "0F1");
  EXPECT_EQ(span.at("cat"), "compute");
  EXPECT_EQ(span.at("args").at("micro_batch"), 1);
  const std::string ts = std::to_string(start);
  EXPECT_NE(text.find("\"ts\":" + ts.substr(0, ts.size() - 3) + "." + ts.substr(ts.size() - 3) +
                      ",\"dur\":12.345"),
            std::string::npos)
      << text;
  ASSERT_EQ(message.size(), 2U);
  EXPECT_EQ(message[0].at("id"), message[1].at("id"));
}

TEST(TraceFile, gives_the_device_a_row_of_its_own_with_its_name) {
  const ScratchFolder folder;
  const auto path = folder.path() / "trace-3.json";
  {
    TraceFile trace(path, 3, "rank 3");
    trace.name_device("cuda:1");
    trace.span("queueing", "0F1", 1000, 2000);
    trace.device_span("compute", "0F1", 3000, 9000);
    trace.close();
  }
  Json row;
  std::set<std::string> names;
  for (const Json& event : Json::parse(read_text(path))) {
    EXPECT_EQ(event.at("pid"), 3);
    if (event.at("name") == "thread_name") {
      names.insert(event.at("args").at("name"));
      row = event.at("tid");  // the host's comes first
    } else {
      EXPECT_EQ(event.at("tid") == row, event.at("cat") == "compute") << event;
    }
  }
  EXPECT_EQ(names, (std::set<std::string>{"host", "cuda:1"}));
}

TEST(TraceFile, is_good_for_a_viewer_when_the_run_was_killed) {
  const ScratchFolder folder;
  const auto path = folder.path() / "trace-0.json";
  TraceFile trace(path, 0, "rank 0");
  trace.span("compute", "a", 1000, 2000);
  trace.flush();
  trace.span("compute", "b", 2000, 3000);  // never flushed
  // The viewers take an array without its end.
  const Json events = Json::parse(read_text(path) + "]");
  EXPECT_EQ(events.back().at("name"), "a");
}

TEST(TraceFile, replaces_the_one_of_an_earlier_start) {
  const ScratchFolder folder;
  const auto path = folder.path() / "trace-0.json";
  {
    TraceFile trace(path, 0, "rank 0");
    trace.span("compute", "earlier", 1, 2);
    trace.close();
  }
  TraceFile(path, 0, "rank 0").close();
  EXPECT_EQ(read_text(path).find("earlier"), std::string::npos);
}

}  // namespace
}  // namespace trireme
