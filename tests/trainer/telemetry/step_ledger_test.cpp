#include "trainer/telemetry/step_ledger.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <sstream>
#include <vector>

#include "model/base/error.h"
#include "model/base/file.h"
#include "tests/trainer/telemetry/scratch_folder.h"

namespace trireme {
namespace {

LedgerBegin begin_after(std::int64_t step) {
  return {.why = step == 0 ? "start" : "resume",
          .incarnation = 1 + step,
          .after = step,
          .weights = "0123456789abcdef",
          .skip = {{3, 5}},
          .data = "corpus 7 documents",
          .computation = {{"job.reproducible", "true"}, {"threads", "2"}}};
}

LedgerStep step_of(std::int64_t number) {
  return {.step = number,
          .incarnation = 1,
          .samples = {4, 9},
          .left_out = {{2, 4}, {5, 6}},
          .sequences = 4,
          .tokens = 128,
          .hash = 0xfedcba9876543210,
          .loss = 0.1,
          .grad_norm = std::numeric_limits<double>::denorm_min(),
          .lr = -0.0,
          .attempts = 2,
          .products_chosen = true};
}

std::vector<std::string> ledger_lines(const std::filesystem::path& path) {
  std::vector<std::string> lines;
  std::istringstream text(read_text(path));
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

TEST(StepLedger, a_line_reads_back_as_it_was_to_the_bit) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 1000; ++round) {
    LedgerStep step = step_of(round);
    step.loss = std::bit_cast<double>(random());
    step.hash = random();
    const auto back = std::get<LedgerStep>(parse_ledger_line(ledger_text(step, random()).text));
    EXPECT_EQ(back.step, step.step);
    EXPECT_EQ(back.samples, step.samples);
    EXPECT_EQ(back.left_out, step.left_out);
    EXPECT_EQ(back.hash, step.hash);
    EXPECT_EQ(std::bit_cast<std::uint64_t>(back.loss), std::bit_cast<std::uint64_t>(step.loss));
    EXPECT_EQ(back.grad_norm, step.grad_norm);
    EXPECT_TRUE(std::signbit(back.lr));
    EXPECT_EQ(back.attempts, 2);
    EXPECT_TRUE(back.products_chosen);
  }
  const auto begin = std::get<LedgerBegin>(parse_ledger_line(ledger_text(begin_after(8), 0).text));
  EXPECT_EQ(begin.why, "resume");
  EXPECT_EQ(begin.after, 8);
  EXPECT_EQ(begin.skip, begin_after(8).skip);
  EXPECT_EQ(begin.computation, begin_after(8).computation);
}

TEST(StepLedger, grows_over_restarts_and_loses_only_what_a_kill_has_torn) {
  const ScratchFolder folder;
  const auto path = folder / "ledger.jsonl";
  {
    StepLedger ledger(path, begin_after(0));
    for (int step = 1; step < 4; ++step) ledger.append(step_of(step));
  }
  replace_text(path, read_text(path) + "{\"step\":4,\"incar");
  {
    StepLedger ledger(path, begin_after(2));
    ledger.append(step_of(3));
  }
  const std::vector<std::string> lines = ledger_lines(path);
  ASSERT_EQ(lines.size(), 6u);
  std::uint64_t chain = 0;
  for (const std::string& line : lines) {
    EXPECT_TRUE(follows(line, chain)) << line;
    EXPECT_FALSE(follows(line, chain + 1));
    chain = chain_of(line).value_or(0);
  }
  EXPECT_FALSE(follows(lines[3], chain_of(lines[1]).value_or(0)));
}

TEST(StepLedger, a_line_that_is_none_says_why) {
  const std::string good = ledger_text(step_of(5), 0).text;
  const auto why = [](const std::string& text) -> std::string {
    try {
      parse_ledger_line(text);
    } catch (const DataError& error) {
      return error.what();
    }
    return "";
  };
  const auto with = [&](const std::string& part, const std::string& other) {
    std::string text = good;
    return why(text.replace(text.find(part), part.size(), other));
  };
  EXPECT_EQ(why(good), "");
  EXPECT_EQ(why("[3]"), "an object is expected, found [3]");
  EXPECT_EQ(why("{}"), "step: missing");
  EXPECT_EQ(with("\"tokens\":128,", ""), "tokens: missing");
  EXPECT_EQ(with("\"tokens\":128,", "\"tokens\":128,\"more\":1,"), R"(unknown key "more")");
  EXPECT_EQ(with("\"tokens\":128", "\"tokens\":-1"),
            "tokens: a whole number from 0 to 9223372036854775807 is expected, found -1");
  EXPECT_EQ(with("fedcba9876543210", "fedcba987654321"),
            R"(hash: 16 hex digits are expected, found "fedcba987654321")");
  EXPECT_EQ(with("[4,9]", "[9,4]"),
            "samples: [FIRST, END) with FIRST below END is expected, found [9,4]");
  EXPECT_EQ(with("[[2,4],", "[[2],"), "left_out[0]: 2 values are expected, found [2]");
  EXPECT_EQ(with(":true", ":1"), "products_chosen: true or false is expected, found 1");
  for (const char* text : {"", "\"}", "{}", "{\"chain\":\"0123456789abcdef\"}"}) {
    EXPECT_FALSE(follows(text, 0)) << text;
    EXPECT_FALSE(chain_of(text)) << text;
  }
}

}  // namespace
}  // namespace trireme
