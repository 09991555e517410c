#include "trainer/telemetry/events_log.h"

#include <gtest/gtest.h>

#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/base/file.h"
#include "tests/trainer/telemetry/scratch_folder.h"

namespace trireme {
namespace {

using nlohmann::json;

std::vector<json> lines_of(const std::filesystem::path& path) {
  std::vector<json> lines;
  std::istringstream text(read_text(path));
  for (std::string line; std::getline(text, line);) lines.push_back(json::parse(line));
  return lines;
}

TEST(EventsLog, an_event_has_its_time_in_utc_its_step_and_its_details) {
  const ScratchFolder folder;
  EventsLog log(folder / "events.jsonl");
  log.record("checkpoint", 100, {{"path", "checkpoints/step-00000100"}, {"bytes", 12345}});
  log.record("stop", 101);
  const std::vector<json> lines = lines_of(folder / "events.jsonl");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].at("event"), "checkpoint");
  EXPECT_EQ(lines[0].at("step"), 100);
  EXPECT_EQ(lines[0].at("bytes"), 12345);
  EXPECT_EQ(lines[1].size(), 5u);  // with its number and chain
  const std::regex iso(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)");
  EXPECT_TRUE(std::regex_match(lines[0].at("time").get<std::string>(), iso)) << lines[0];
}

TEST(EventsLog, keeps_earlier_events_and_drops_a_torn_line) {
  const ScratchFolder folder;
  const auto path = folder / "events.jsonl";
  { EventsLog(path).record("start", 0); }
  replace_text(path, read_text(path) + "{\"time\":\"20");
  { EventsLog(path).record("resume", 7); }
  const std::vector<json> lines = lines_of(path);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].at("event"), "start");
  EXPECT_EQ(lines[1].at("event"), "resume");
}

TEST(EventsLog, chains_the_lines_of_several_writers_in_the_order_of_the_file) {
  const ScratchFolder folder;
  const auto path = folder / "events.jsonl";
  replace_text(path, "{\"time\":\"of an earlier version\"}\n");
  EventsLog ranks(path), supervisor(path);
  for (int step = 0; step < 4; ++step) {
    ranks.record("checkpoint", step);
    supervisor.record("failure", step, {{"text", std::string(step == 1 ? 100'000 : 1, 'x')}});
  }
  std::istringstream text(read_text(path));
  std::uint64_t chain = 0;
  std::int64_t number = 1;
  std::string line;
  std::getline(text, line);
  while (std::getline(text, line)) {
    EXPECT_TRUE(follows(line, chain)) << line;
    EXPECT_EQ(json::parse(line).at("line"), ++number);
    chain = chain_of(line).value_or(0);
  }
  EXPECT_EQ(number, 9);
  EXPECT_EQ(ranks.mark().lines, 9);
  EXPECT_EQ(supervisor.mark().chain, chain);
}

TEST(EventsLog, any_bytes_make_valid_json) {
  const ScratchFolder folder;
  EventsLog log(folder / "events.jsonl");
  log.record("sample", 1, {{"text", "a \xff\xfe broken \n\"quoted\" \x01 text"}});
  const std::vector<json> lines = lines_of(folder / "events.jsonl");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].at("text").get<std::string>().find("\"quoted\""), std::string::npos);
}

TEST(EventsLog, refuses_details_that_would_hide_its_own_keys) {
  const ScratchFolder folder;
  EventsLog log(folder / "events.jsonl");
  EXPECT_THROW(log.record("stop", 1, {{"step", 2}}), Error);
  EXPECT_THROW(log.record("stop", 1, EventsLog::Details::array({1, 2})), Error);
}

}  // namespace
}  // namespace trireme
