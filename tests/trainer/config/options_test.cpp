#include "trainer/config/option.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "trainer/config/reference.h"

namespace trireme {
namespace {

TEST(options, are_listed_once_and_explained_in_one_line) {
  std::set<std::string> seen;
  for (const Option& option : options()) {
    EXPECT_TRUE(seen.insert(option.key).second) << option.key;
    for (const std::string& alias : option.aliases) {
      EXPECT_TRUE(seen.insert(option.section() + "." + alias).second) << alias;
    }
    EXPECT_FALSE(option.help.empty()) << option.key;
    EXPECT_EQ(option.help.find('\n'), std::string::npos) << option.key;
    EXPECT_NE(option.slot, nullptr) << option.key;
  }
}

TEST(options, name_different_members) {
  RunConfig config;
  std::set<const void*> members;
  for (const Option& option : options()) {
    const Slot slot = option.slot(config);
    std::visit([&](const auto* member) { members.insert(member); }, slot);
  }
  // model.rms_norm_eps and model.layer_norm_epsilon are the two names of one number.
  EXPECT_EQ(members.size(), options().size() - 1);
}

TEST(options, have_defaults_that_they_allow) {
  for (const Option& option : options()) {
    if (!option.default_text.empty()) continue;  // not a constant
    RunConfig config;
    const Slot slot = option.slot(config);
    double number = 0;
    if (auto* const* integer = std::get_if<std::int64_t*>(&slot)) {
      number = static_cast<double>(**integer);
    } else if (auto* const* real = std::get_if<double*>(&slot)) {
      number = **real;
    } else {
      auto* const* text = std::get_if<std::string*>(&slot);
      const bool is_a_choice = text != nullptr && !(*text)->empty() && !option.allowed.empty();
      if (is_a_choice) {
        EXPECT_THAT(option.allowed, testing::Contains(**text));
      }
      continue;
    }
    EXPECT_GE(number, option.range.least) << option.key;
    EXPECT_LE(number, option.range.most) << option.key;
  }
}

TEST(options, of_a_section_stand_together) {
  const std::vector<std::string> names = sections();
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
}

TEST(options, are_found_by_their_long_names_too) {
  EXPECT_EQ(find_option("parallelism.tensor_parallel_degree"), find_option("parallelism.tensor"));
  EXPECT_EQ(find_option("parallelism.data_parallel_shard_degree"),
            find_option("parallelism.data_shard"));
  EXPECT_EQ(find_option("tensor"), nullptr);
}

TEST(options, are_all_in_the_reference) {
  const std::string text = reference_text();
  const std::string markdown = reference_markdown();
  for (const Option& option : options()) {
    EXPECT_THAT(text, testing::HasSubstr(option.key + " ("));
    EXPECT_THAT(markdown, testing::HasSubstr("| `" + option.name() + "` |"));
  }
}

}  // namespace
}  // namespace trireme
