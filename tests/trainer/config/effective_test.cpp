#include "trainer/config/effective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "tests/trainer/config/support.h"
#include "trainer/config/flavors.h"
#include "trainer/config/option.h"
#include "trainer/config/value_text.h"

namespace trireme {
namespace {

using testing::HasSubstr;

void expect_reads_back(const LoadedConfig& loaded) {
  const std::string text = effective_toml(loaded);
  const LoadedConfig again = read_config({"config.toml", text, "/elsewhere"}, {});
  EXPECT_EQ(again.config, loaded.config) << text;
}

TEST(effective, every_flavor_reads_back_to_the_same_config) {
  for (const std::string& flavor : flavor_names()) {
    expect_reads_back(read(kGood, {{"model.flavor", flavor}}));
  }
}

TEST(effective, every_value_has_its_origin) {
  const std::string text = effective_toml(
      read(kGood + "seq_len = 64\n", {{"optimizer.lr", "2e-3"}, {"data.split", "0.25"}}));
  EXPECT_THAT(text, HasSubstr("\nseq_len = 64 "));
  EXPECT_THAT(text, testing::ContainsRegex("\nseq_len = 64 +# run.toml:7\n"));
  EXPECT_THAT(text, testing::ContainsRegex("\nlr = 0.002 +# command line\n"));
  EXPECT_THAT(text, testing::ContainsRegex("\nhidden_size = 64 +# flavor tiny\n"));
  EXPECT_THAT(text, testing::ContainsRegex("\nglobal_batch_size = 1 +# derived\n"));
  EXPECT_THAT(text, testing::ContainsRegex("\nbeta1 = 0.9 +# default\n"));
}

TEST(effective, numbers_read_back_to_the_same_bits) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t bits = random();
    double number = 0;
    std::memcpy(&number, &bits, sizeof number);
    if (!(std::abs(number) < 1e300)) continue;
    const double positive = std::abs(number);
    const LoadedConfig loaded = read(kGood + "max_norm = " + to_toml(positive) + "\n");
    EXPECT_EQ(loaded.config.training.max_norm, positive) << to_toml(positive);
  }
}

TEST(effective, awkward_text_reads_back) {
  for (const std::string text : {"a \"quoted\" word", "back\\slash", "tab\tand\nline",
                                 "# no comment", "\x01\x7f", "Zürich 東京", "''", "\"\"\""}) {
    LoadedConfig loaded = read(kGood);
    loaded.config.job.description = text;
    loaded.config.data.train.front().path = "/data/" + text;
    expect_reads_back(loaded);
  }
}

// A value for the option that its own range allows; empty when only a fixed word would do.
std::string random_value(const Option& option, std::mt19937_64& random) {
  RunConfig config;
  const Slot slot = option.slot(config);
  const auto pick = [&random](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  if (std::holds_alternative<bool*>(slot)) return pick(2) == 0 ? "true" : "false";
  if (!option.allowed.empty()) return option.allowed[pick(option.allowed.size())];
  if (std::holds_alternative<std::int64_t*>(slot)) {
    return std::to_string(static_cast<std::int64_t>(std::max(option.range.least, 1.0)) +
                          static_cast<std::int64_t>(pick(64)));
  }
  if (std::holds_alternative<double*>(slot)) {
    const double share = static_cast<double>(random() >> 11) * 0x1p-53;
    const double most = std::min(option.range.most, 100.0);
    return to_toml(option.range.least + (most - option.range.least) * (0.001 + 0.99 * share));
  }
  return {};
}

TEST(effective, random_configs_read_back_to_themselves) {
  std::mt19937_64 random(11);
  int accepted = 0;
  for (int i = 0; i < 3000; ++i) {
    std::vector<Override> overrides;
    for (int k = 0; k < 3; ++k) {
      const Option& option = options()[random() % options().size()];
      const std::string value = random_value(option, random);
      if (!value.empty()) overrides.push_back({option.key, value});
    }
    LoadedConfig loaded;
    try {
      loaded = read(kGood, overrides);
    } catch (const ConfigError&) {
      continue;  // a contradiction
    }
    ++accepted;
    expect_reads_back(loaded);
  }
  EXPECT_GT(accepted, 900);
}

}  // namespace
}  // namespace trireme
