#include "trainer/engine/peak_cache.h"

#include <gtest/gtest.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "model/base/file.h"
#include "tests/trainer/telemetry/scratch_folder.h"

namespace trireme {
namespace {

using nlohmann::json;

class PeakCache : public testing::Test {
 protected:
  // The peak in use where a measurement finds `measured` FLOP/s.
  double peak(double measured, const std::string& key = "a device") {
    measurements_ = 0;
    return cached_peak(folder_.path() / "cache", key, [&] {
      ++measurements_;
      return measured;
    });
  }
  json stored() const { return json::parse(read_text(file_)); }
  void store(const json& entry) {
    make_folders(file_.parent_path());
    replace_text(file_, json{{"a device", entry}}.dump());
  }

  const ScratchFolder folder_;
  const std::filesystem::path file_ = folder_.path() / "cache" / "matrix-peaks.json";
  const std::int64_t now_ = std::time(nullptr);
  int measurements_ = 0;
};

TEST_F(PeakCache, measures_until_two_agree) {
  EXPECT_EQ(peak(60), 60);
  EXPECT_EQ(peak(100), 100) << "the first was of a busy machine";
  EXPECT_EQ(peak(70), 100) << "this one too";
  EXPECT_EQ(peak(98), 100);
  EXPECT_EQ(measurements_, 1);
  EXPECT_EQ(peak(200), 100);
  EXPECT_EQ(measurements_, 0) << "two have agreed";
  EXPECT_EQ(peak(50, "another device"), 50);
  EXPECT_EQ(stored().size(), 2u);
}

TEST_F(PeakCache, measures_again_after_an_hour) {
  for (const std::int64_t other_time : {now_ - 7200, now_ + 7200}) {
    store({{"flops_per_second", 100}, {"confirmed_at", other_time}});
    EXPECT_EQ(peak(99), 100);
    EXPECT_EQ(measurements_, 1);
    EXPECT_EQ(peak(101), 100) << "confirmed again";
    EXPECT_EQ(measurements_, 0);
  }
}

TEST_F(PeakCache, replaces_what_is_damaged) {
  for (const char* const damaged : {"{", "[1]", "7"}) {
    store({});
    replace_text(file_, damaged);
    EXPECT_EQ(peak(100), 100) << damaged;
    EXPECT_EQ(stored().size(), 1u) << damaged;
  }
  for (const json& damaged :
       {json(2000), json{{"flops_per_second", "much"}, {"confirmed_at", now_}},
        json{{"flops_per_second", 2000}}, json{{"flops_per_second", 1e30}, {"confirmed_at", now_}},
        json{{"flops_per_second", 1e17}, {"confirmed_at", now_ - 7200}},
        json{{"flops_per_second", -1.0}, {"confirmed_at", now_}}}) {
    store(damaged);
    EXPECT_EQ(peak(100), 100) << damaged;
    EXPECT_EQ(stored()["a device"]["flops_per_second"], 100) << damaged;
  }
}

TEST_F(PeakCache, is_not_stored_without_a_folder_that_can_be_written) {
  const auto measure = [] { return 100.0; };
  EXPECT_EQ(cached_peak({}, "a device", measure), 100);
  replace_text(folder_.path() / "a_file", "");
  EXPECT_EQ(cached_peak(folder_.path() / "a_file" / "cache", "a device", measure), 100);
}

}  // namespace
}  // namespace trireme
